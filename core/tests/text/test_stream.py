from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import anyio
import attrs
import pytest

from truecluster._engine.requests import Event, FinishedEvent, OnEvent, Request, TokenEvent
from truecluster._text import (
    Completion,
    TextDelta,
    TextFinished,
    TextRequest,
    acomplete,
    astream,
    complete,
    stream,
)
from truecluster._text.tokenizer import Tokenizer
from truecluster.api import NodeError, TokenizerData


@attrs.define
class FakeHandle:
    cancelled: threading.Event = attrs.field(factory=threading.Event)

    def cancel(self) -> None:
        self.cancelled.set()


@attrs.define
class FakeEngine:
    """Sends what it was given from a thread of its own; without a last event it goes on until cancelled."""

    events: list[Event]
    handle: FakeHandle = attrs.field(factory=FakeHandle)

    def submit(self, request: Request, on_event: OnEvent) -> FakeHandle:
        def work() -> None:
            for event in self.events:
                on_event(event)
            if not any(isinstance(event, FinishedEvent) for event in self.events):
                self.handle.cancelled.wait(10)
                on_event(FinishedEvent(reason="cancelled", generated=len(self.events)))

        threading.Thread(target=work, daemon=True).start()
        return self.handle


def tokens(text: str) -> list[Event]:
    return [TokenEvent(byte) for byte in text.encode()]


def finished(reason: str, generated: int, message: str | None = None) -> FinishedEvent:
    return FinishedEvent(reason=reason, generated=generated, message=message)  # type: ignore[arg-type]


@pytest.fixture
def ask(byte_data: TokenizerData) -> Callable[..., TextRequest]:
    tokenizer = Tokenizer(byte_data)

    def make(*stop: str) -> TextRequest:
        request = Request(prompt=(1, 2, 3), max_tokens=100, eos=frozenset({258}))
        return TextRequest(tokens=request, stop=stop, tokenizer=tokenizer)

    return make


async def both(engine: FakeEngine, request: TextRequest) -> Completion:
    """The same answer from both ways of asking."""
    waited = await anyio.to_thread.run_sync(complete, engine, request)
    assert await acomplete(engine, [request]) == [waited]
    return waited


@pytest.mark.anyio
@pytest.mark.parametrize("reason", ["stop", "length"])
async def test_an_answer_has_its_text_its_ids_and_its_counts(ask: Callable[..., TextRequest], reason: str) -> None:
    engine = FakeEngine([*tokens("hé"), TokenEvent(257), TokenEvent(259), finished(reason, 6)])
    answer = await both(engine, ask())
    assert (answer.text, answer.ids) == ("hé<tool_call>", (0x68, 0xC3, 0xA9, 257, 259))
    assert (answer.finish_reason, answer.prompt_tokens, answer.completion_tokens) == (reason, 3, 6)


@pytest.mark.anyio
async def test_a_stop_string_cancels_and_counts_what_was_read(ask: Callable[..., TextRequest]) -> None:
    engine = FakeEngine(tokens("one two three"))
    answer = await both(engine, ask("tw", "three"))
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("one ", "stop", 6)
    assert engine.handle.cancelled.is_set()


@pytest.mark.anyio
async def test_a_stop_string_on_the_last_token_is_a_stop(ask: Callable[..., TextRequest]) -> None:
    """API-09: only the budget is length."""
    assert (await both(FakeEngine([*tokens("abc"), finished("length", 3)]), ask("bc"))).finish_reason == "stop"
    answer = await both(FakeEngine([*tokens("abc"), finished("length", 3)]), ask("cd"))
    assert (answer.text, answer.finish_reason) == ("abc", "length")


@pytest.mark.anyio
@pytest.mark.parametrize(("reason", "message"), [("error", "node w1 was lost"), ("cancelled", None)])
async def test_a_failure_is_never_an_answer(ask: Callable[..., TextRequest], reason: str, message: str | None) -> None:
    engine = FakeEngine([*tokens("ab"), finished(reason, 2, message)])
    with pytest.raises(NodeError, match=message or "cancelled"):
        complete(engine, ask())
    with pytest.raises(NodeError, match=message or "cancelled"):
        await acomplete(engine, [ask()])


def test_text_comes_as_it_grows_and_leaving_cancels(ask: Callable[..., TextRequest]) -> None:
    engine = FakeEngine(tokens("aéb"))
    events = stream(engine, ask())
    assert [next(events) for _ in range(3)] == [TextDelta("a"), TextDelta("é"), TextDelta("b")]
    assert not engine.handle.cancelled.is_set()
    events.close()
    assert engine.handle.cancelled.is_set()


@pytest.mark.anyio
async def test_text_comes_as_it_grows_in_an_event_loop_and_cancelling_cancels(ask: Callable[..., TextRequest]) -> None:
    engine, got = FakeEngine(tokens("aéb")), ""
    with anyio.move_on_after(5) as scope:
        async for _, event in astream(engine, [ask()]):
            assert isinstance(event, TextDelta)
            got += event.text
            if got == "aéb":
                scope.cancel()
    assert engine.handle.cancelled.wait(1)


def test_half_a_character_at_the_end_is_the_same_in_both_modes(ask: Callable[..., TextRequest]) -> None:
    engine = FakeEngine([TokenEvent(0x61), TokenEvent(0xF0), finished("length", 2)])
    expected = TextFinished(reason="length", ids=(0x61, 0xF0), generated=2)
    assert list(stream(engine, ask())) == [TextDelta("a"), TextDelta("\ufffd"), expected]
    assert complete(engine, ask()).text == "a\ufffd"


def test_neither_torch_nor_transformers_is_loaded() -> None:
    heavy = "{'torch', 'transformers', 'numpy'}"
    code = f"import sys, truecluster._text, truecluster._serve; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
