"""The load that `bench/serve.py` makes, and what it says of it: on servers that answer as told, and on ours."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from commands import Served

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import serve
from load.client import Client
from load.loops import Closed, Open, arrivals
from load.report import Measured, failures, ratios
from load.samples import Sample, Spread, Summary
from load.streams import Streams
from load.target import Target, Unfit
from load.work import Mix


def stream(*chunks: Any, done: bool = True) -> bytes:
    frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"] * done
    return "".join(frames).encode()


def text(piece: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": piece}], **more}


def delta(**piece: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": piece}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
MODELS = {"object": "list", "data": [{"id": "first"}, {"id": "second"}]}


class Puppet(ThreadingHTTPServer):
    """Answers posts with ``answer``: a status, headers and a body; keeps the bodies that came in ``asked``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Strings)
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, stream(text("a"), text("b"), text("", **USAGE)))
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.key: str | None = None
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Strings(BaseHTTPRequestHandler):
    server: Puppet

    def do_GET(self) -> None:
        known = self.server.key is None or self.headers.get("Authorization") == f"Bearer {self.server.key}"
        if not known:
            self._say(401, {}, b"{}")
        elif self.path == "/v1/models":
            self._say(200, {}, json.dumps(MODELS).encode())
        else:
            self._say(404, {}, b"no such page")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self._say(*self.server.answer)

    def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def puppet() -> Iterator[Puppet]:
    with Puppet() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(puppet: Puppet, body: dict[str, Any] | None = None) -> Sample:
    return Client(Target.found(url=puppet.url, timeout=20)).ask(body or {"prompt": "x"})


def sample(sent: float, *times: float, ended: float, tokens: int, **more: Any) -> Sample:
    return Sample(sent=sent, status=200, ended=ended, times=times, tokens=tokens, prompt_tokens=10, **more)


def test_percentiles_are_interpolated() -> None:
    """By hand: the 90th of 1 … 5 lies 0.9 of the 4 steps up, at 4.6."""
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, pytest.approx(4.6), pytest.approx(4.96))
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)
    assert Spread.of([]) is None


def test_a_summary_is_what_its_samples_come_to() -> None:
    """Worked out by hand: 8 tokens of two answers between seconds 1 and 5."""
    found = Summary.of(
        [
            sample(1.0, 0.5, 0.75, 1.0, 1.5, ended=2.0, tokens=5),
            sample(2.0, 1.0, 2.5, ended=3.0, tokens=3),
            Sample(sent=2.0, status=429, ended=0.1, error="busy"),
            Sample(sent=2.0, status=500, ended=0.1, error="broken"),
            sample(2.0, 0.1, ended=0.2, tokens=9, error="the stream broke off"),
        ]
    )
    assert (found.requests, found.busy, found.errors) == (5, 1, 2)
    assert (found.seconds, found.requests_per_s, found.tokens_per_s) == (4.0, 0.5, 2.0)
    assert (found.prompt_tokens, found.tokens) == (20, 8)
    assert found.ttft_s is not None
    assert found.ttft_s.p50 == 0.75
    assert found.tpot_s is not None  # 1.5 s for 4 tokens, 2 s for 2
    assert found.tpot_s.p50 == pytest.approx((0.375 + 1.0) / 2)
    assert found.gap_s is not None  # 0.25, 0.25, 0.5, 1.5
    assert found.gap_s.p50 == 0.375


def test_ratios_are_medians_of_rounds() -> None:
    def round(number: int, server: str, tokens: int, ttft: float) -> Measured:
        made = sample(0.0, ttft, ended=ttft + 1, tokens=tokens)
        return Measured(load="closed", server=server, round=number, samples=[made])

    ours = [round(0, "a", 2, 1.0), round(1, "a", 4, 1.0), round(2, "a", 9, 1.0)]
    others = [round(0, "b", 2, 1.0), round(1, "b", 2, 0.5), round(2, "b", 3, 0.25)]
    found = ratios([*ours, *others], "a", "b")["closed"]
    assert found["TTFT p50"] == 2
    assert found["tokens/s"] == pytest.approx((4 / 2) / (2 / 1.5))  # of 1, 1.5 and 1.875
    assert found["TPOT p50"] == pytest.approx(1 / 3)  # of 1, 1/3 and (1/8)/(1/2)


def test_arrivals_are_a_seeded_poisson_process() -> None:
    came = arrivals(10.0, 5000, seed=3)
    assert came == arrivals(10.0, 5000, seed=3) != arrivals(10.0, 5000, seed=4)
    assert came == sorted(came)
    gaps = [after - before for before, after in zip([0.0, *came], came, strict=False)]
    assert sum(gaps) / 5000 == pytest.approx(0.1, rel=0.06)  # four standard errors
    assert sum(gap < 0.1 for gap in gaps) / 5000 == pytest.approx(1 - 1 / 2.718281828, abs=0.03)


def test_a_mix_is_seeded_and_its_prompts_share_no_beginning() -> None:
    mix = Mix(prompts=[3, 20], answers=[5, 6], extra={"top_p": 0.5})
    bodies = mix.bodies(40, 1)
    assert bodies == mix.bodies(40, 1) != mix.bodies(40, 2)
    assert {len(body["prompt"].split()) for body in bodies} == {3, 20}
    assert {body["max_tokens"] for body in bodies} == {5, 6}
    assert len({body["prompt"][:30] for body in bodies}) > 35
    assert all(body["top_p"] == 0.5 for body in bodies)
    assert Mix(prompts=[3], chat=True).bodies(1, 1)[0]["messages"][0]["role"] == "user"


class Counted:
    """Stands in for a client: ``meet`` of its requests must be under way before any is answered."""

    def __init__(self, meet: int, status: int = 200) -> None:
        self.stopped = threading.Event()
        self.most = self._now = 0
        self._status, self._changing, self._meeting = status, threading.Lock(), threading.Barrier(meet, timeout=20)

    def now(self) -> float:
        return 0.0

    def stop(self) -> None:
        self.stopped.set()

    def ask(self, body: Any) -> Sample:
        with self._changing:
            self._now += 1
            self.most = max(self.most, self._now)
        self._meeting.wait()
        with self._changing:
            self._now -= 1
        return Sample(sent=0.0, status=self._status, ended=1.0, tokens=body["max_tokens"])


def bodies(count: int) -> list[dict[str, int]]:
    return [{"max_tokens": number} for number in range(count)]


def test_a_closed_loop_keeps_so_many_under_way() -> None:
    client: Any = Counted(meet=3)
    found = Closed(3).run(client, bodies(9))
    assert client.most == 3
    assert [each.tokens for each in found] == [*range(9)]


def test_an_open_loop_waits_for_nobody() -> None:
    client: Any = Counted(meet=12)
    assert len(Open(rate=1e4, seed=1).run(client, bodies(12))) == client.most == 12


def test_an_answer_is_timed_by_its_text_and_counted_by_the_server(puppet: Puppet) -> None:
    puppet.answer = (200, {}, stream(text("a", usage=None), text(""), text("b"), text(""), USAGE))
    found, heard = Client(Target.found(url=puppet.url)), list[float]()
    taken = found.ask({"prompt": "x", "max_tokens": 3}, heard.append)
    assert (len(taken.times), len(heard), taken.tokens, taken.prompt_tokens) == (2, 2, 3, 7)
    assert 0 < taken.ttft <= taken.times[1] <= taken.ended
    assert taken.answered
    ((path, asked),) = puppet.asked
    assert path == "/v1/completions"
    assert asked == {
        "model": "first",
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt": "x",
        "max_tokens": 3,
    }


def test_a_chat_s_role_is_no_text_and_its_calls_are(puppet: Puppet) -> None:
    calls = [{"index": 0, "function": {"arguments": "{"}}]
    chunks = [delta(role="assistant", content=""), delta(content="a"), delta(tool_calls=calls), delta(), USAGE]
    puppet.answer = (200, {}, stream(*chunks))
    assert len(ask(puppet, {"messages": []}).times) == 2
    assert puppet.asked[0][0] == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        ((429, {"Retry-After": "3"}, b'{"error": {"message": "full"}}'), 429, "full"),
        ((500, {}, b"oh"), 500, "oh"),
        ((200, {}, stream(text("a"), done=False)), 200, "broke off"),
        ((200, {}, stream(text("a"), {"error": {"message": "a node was lost"}})), 200, "a node was lost"),
        ((200, {}, b"data: {nonsense\n\n"), 200, "JSON"),
    ],
)
def test_what_fails_is_said(puppet: Puppet, answer: tuple[int, dict[str, str], bytes], status: int, error: str) -> None:
    puppet.answer = answer
    found = ask(puppet)
    assert not found.answered
    assert (found.status, error in found.error) == (status, True), found.error
    assert found.retry_after == (3 if status == 429 else 1 if status == 500 else 0)
    (message,) = failures([Measured(load="l", server="s", round=0, samples=[found])])
    assert message.startswith(f"s answered {status}: ")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n\r\n" + stream(text("a"), done=False)])
def test_a_stopped_client_ends_what_waits(said: bytes) -> None:
    """Of a server that takes a connection and never goes on, before its answer or within."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        client, found = (
            Client(Target(url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", timeout=100)),
            list[Sample](),
        )
        asking, heard = threading.Thread(target=lambda: found.append(client.ask({}, heard.put))), Queue[float]()
        asking.start()
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(20)
            assert connection.recv(10)
            if said:
                connection.sendall(said)
                heard.get(timeout=20)
            client.stop()
            asking.join(20)
            assert not asking.is_alive()
    assert found[0].error
    assert client.ask({}).error


@pytest.mark.parametrize(
    ("model", "key", "path", "message"),
    [
        (None, None, "", r"wants a key .*--api-key"),
        (None, "wrong", "", r"refuses the key .*--api-key"),
        ("third", "right", "", r"no model 'third'; it has: first, second"),
        (None, "right", "/v2", r"answered 404 and no list of models; is it the base URL"),
    ],
)
def test_a_server_that_does_not_fit_is_told_of(
    puppet: Puppet, model: str | None, key: str | None, path: str, message: str
) -> None:
    puppet.key = "right"
    with pytest.raises(Unfit, match=message):
        Target.found(url=puppet.url + path, model=model, key=key)


def test_a_key_opens_a_server_and_stays_unseen(puppet: Puppet) -> None:
    puppet.key = "right"
    target = Target.found(url=puppet.url, model="second", key="right")
    assert target.model == "second"
    assert "right" not in repr(target)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--url", "localhost"], "'localhost' is no base URL; give one such as http://"),
        (["--url", "http://127.0.0.1:1/v1"], "nothing answers at http://127.0.0.1:1/v1"),
        (["--url", "http://x/v1", "--quant", "int8"], "--quant is of a server that is started here"),
        (["--llama-gguf", __file__], "--llama-server and --llama-gguf go together"),
        (["--llama-gguf", "nowhere.gguf", "--llama-server", __file__], "nowhere.gguf is no file"),
        (["--closed", "none"], "give --open requests per second"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LLAMA_SERVER", "LLAMA_GGUF", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert serve.main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--closed", "1,0"], "'0' is no whole number from 1 on"),
        (["--open", "nan"], "'nan' is no number above 0"),
        (["--body", "[1]"], "'[1]' is no JSON object"),
        (["--requests", "-1"], "'-1' is no whole number"),
    ],
)
def test_a_wrong_number_is_named(words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        serve.main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_server_of_ours_is_measured(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its model ends no answer by itself, and has a token for each byte, so all is known of the counts."""
    path = tmp_path / "found" / "serve.json"
    options = ["--closed", "1,3", "--requests", "4", "--warmup", "1", "--prompt-tokens", "3", "--answer-tokens", "9"]
    assert serve.main(["--url", f"http://127.0.0.1:{served.api}/v1", *options, "--json", str(path)]) == 0
    said = json.loads(path.read_text())
    assert [one["load"][:6] for one in said["measured"]] == ["closed", "closed", "open, "]
    for one in said["measured"]:
        summary, samples = one["summary"], one["samples"]
        assert (summary["requests"], summary["busy"], summary["errors"], summary["tokens"]) == (4, 0, 0, 36)
        assert len(samples) == 4
        assert all(each["times"] == sorted(each["times"]) and each["times"] for each in samples)
        assert summary["ttft_s"]["p50"] > 0
    shown = capsys.readouterr().out
    assert "closed, 3 at once" in shown
    assert "TTFT ms p50/90/99" in shown


def test_streams_run_until_they_are_no_longer_needed(served: Served) -> None:
    target = Target.found(url=f"http://127.0.0.1:{served.api}/v1", timeout=60)
    with Streams(target, [{"prompt": "ab", "max_tokens": 3000, "temperature": 0}] * 2) as streams:
        begin = streams.client.now()
        streams.wait_for(5)
        assert len(streams.gaps(begin, streams.client.now())) >= 10
        assert streams.gaps(0, min(times[0] for times in streams.times)) == []
        streams.check()
    assert all(not thread.is_alive() for thread in streams._threads)


def test_a_stream_that_ends_too_early_is_told_of(puppet: Puppet) -> None:
    with (
        pytest.raises(Unfit, match="ended by itself after 3 tokens"),
        Streams(Target.found(url=puppet.url), [{}]) as one,
    ):
        one.wait_for(5)


def test_a_load_without_any_answer_is_a_failure(puppet: Puppet, tmp_path: Path) -> None:
    puppet.answer = (500, {}, b"broken")
    options = ["--requests", "2", "--json", str(tmp_path / "serve.json")]
    assert serve.main(["--url", puppet.url, *options, "--closed", "2"]) == 1
