"""Streams, seeds and log-probabilities of a cluster of real nodes."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from answers import official_client
from commands import Commands, Served


def ask(official: openai.OpenAI, **body: Any) -> Any:
    return official.completions.create(
        **{"model": "tiny", "prompt": "Hello", "temperature": 0, "max_tokens": 20, **body}
    )


def test_a_stream_joined_is_the_answer(official: openai.OpenAI) -> None:
    """Of several prompts, in several choices, with a stop string that the answer really has."""
    stop = ask(official, max_tokens=8).choices[0].text[3:5]
    body: dict[str, Any] = {"prompt": ["Hello", "What is it?"], "n": 2, "stop": stop, "seed": 5, "temperature": 0.7}
    whole = [(choice.text, choice.finish_reason) for choice in ask(official, **body).choices]
    found = [["", None] for _ in whole]
    for chunk in ask(official, **body, stream=True):
        for choice in chunk.choices:
            found[choice.index][0] += choice.text
            found[choice.index][1] = choice.finish_reason or found[choice.index][1]
    assert [tuple(one) for one in found] == whole


def test_a_seed_gives_each_choice_its_own_answer_each_time(official: openai.OpenAI) -> None:
    """API-13, API-19: whatever else is computed at the same time, and the first is the one that a single choice has."""
    body: dict[str, Any] = {"seed": 42, "temperature": 1.0, "max_tokens": 30}
    alone = [choice.text for choice in ask(official, **body, n=3).choices]
    assert len(set(alone)) == 3
    assert ask(official, **body).choices[0].text == alone[0]
    with ask(official, temperature=1, max_tokens=2000, stream=True) as other:
        next(iter(other))
        assert [choice.text for choice in ask(official, **body, n=3).choices] == alone


def test_log_probabilities_are_those_that_transformers_computes(official: openai.OpenAI, tiny: Path) -> None:
    import torch
    from transformers import Qwen2ForCausalLM

    answer = ask(official, prompt=[*b"Hello"], logprobs=3, max_tokens=6, temperature=0.8, seed=3)
    found = answer.choices[0].logprobs
    ids = [ord(token) for token in found.tokens]  # the tokenizer's tokens are bytes, and this seed's answer is ASCII
    network = Qwen2ForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    logits = network(torch.tensor([[*b"Hello", *ids]])).logits[0, 4:-1].detach().log_softmax(-1)
    for place, id in enumerate(ids):
        assert found.token_logprobs[place] == pytest.approx(float(logits[place, id]), abs=0.01)
        best = logits[place].topk(3).values.tolist()
        assert sorted(found.top_logprobs[place].values())[-3:] == pytest.approx(best[::-1], abs=0.01)


def test_a_bias_decides(official: openai.OpenAI) -> None:
    """As OpenAI says of 100: exclusive selection; and of -100: a ban."""
    assert ask(official, logit_bias={"65": 100}, max_tokens=4, temperature=1).choices[0].text == "AAAA"
    first = ask(official, max_tokens=1, prompt=[*b"Hello"]).choices[0].text
    assert ask(official, max_tokens=1, prompt=[*b"Hello"], logit_bias={str(ord(first)): -100}).choices[0].text != first


def test_a_bias_of_no_token_harms_nobody(official: openai.OpenAI) -> None:
    """SEC-04: the model has logits for 132 tokens."""
    with pytest.raises(openai.BadRequestError, match="0 to 131"):
        ask(official, logit_bias={"132": 1})
    assert ask(official, logit_bias={"131": -100}).choices[0].finish_reason == "length"


def test_clients_that_leave_their_streams_make_room(api: Served, official: openai.OpenAI) -> None:
    """API-30: more streams than the cluster serves at once, all left after a token, and none stays."""
    body = {"model": "tiny", "prompt": "Go on", "max_tokens": 4000, "stream": True, "temperature": 0}
    for _ in range(3):
        with httpx.Client(base_url=f"http://127.0.0.1:{api.api}/v1", timeout=60) as client:
            streams = [
                client.send(client.build_request("POST", "completions", json=body), stream=True) for _ in range(8)
            ]
            for stream in streams:
                next(stream.iter_bytes())
            for stream in streams:
                stream.close()
    assert ask(official).choices[0].finish_reason == "length"
    assert httpx.get(f"http://127.0.0.1:{api.api}/health", timeout=60).json()["ready"]


@pytest.mark.parametrize("head", ["coordinator", "last-stage"])
def test_a_node_lost_midway_is_an_error_in_the_stream(tc: Commands, tiny: Path, head: str) -> None:
    """API-32: not an end, and without a word that only the cluster's owner may know."""
    command, api, port = tc.cluster(tiny, "--max-nodes", 2, "--head", head)
    nodes = [tc.node(port, name) for name in "ab"]
    command.wait_for("^b: blocks")
    with official_client(api) as client:
        chunks = ask(client, prompt="Go on", max_tokens=4000, stream=True)
        seen = [next(chunks) for _ in range(3)]
        threading.Thread(target=nodes[0].send, args=(signal.SIGKILL,)).start()
        with pytest.raises(openai.APIError) as failed:
            seen.extend(chunks)
    assert failed.value.type == "server_error"
    assert "node a" not in failed.value.message
    assert all(chunk.choices[0].finish_reason is None for chunk in seen)


def test_a_seed_means_the_same_however_the_model_is_split(
    tc: Commands, tiny: Path, served: Served, served_last_stage: Served
) -> None:
    """API-18: one node or two, the head here or there."""
    started = tc.start("run", "--model", tiny, "--nodes", 1, "--serve", "--api-port", 0, "--threads", 1)
    port = int(started.wait_for(r"serving tiny on http://127\.0\.0\.1:(\d+)/v1")[1])
    started.wait_for("^ready: tiny answers")
    answers = []
    for other in (port, served.api, served_last_stage.api):
        with official_client(other, retries=6) as client:
            found = ask(client, seed=1, temperature=1, max_tokens=30, n=2)
            answers.append([choice.text for choice in found.choices])
    assert answers == [answers[0]] * 3
