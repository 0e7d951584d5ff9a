"""The HTTP API in front of a cluster of real nodes."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from commands import Commands, Served, until
from openai_shapes import counted
from tiny_checkpoints import END


@pytest.fixture(scope="module")
def greedy(tiny: Path) -> tuple[list[int], list[int]]:
    """A prompt, and the eight tokens that transformers continues it with; every step has a clear winner."""
    import torch
    from transformers import Qwen2ForCausalLM

    network = Qwen2ForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    prompt, answer = list(b"Hello"), []
    for _ in range(8):
        best = network(torch.tensor([[*prompt, *answer]])).logits[0, -1].detach().topk(2)
        assert best.values[0] - best.values[1] > 0.05
        answer.append(int(best.indices[0]))
    assert END not in answer
    return prompt, answer


def test_a_completion_is_what_transformers_computes(api: Served, greedy: tuple[list[int], list[int]]) -> None:
    prompt, answer = greedy
    response = api.complete(prompt)
    assert response.status_code == 200
    body = response.json()
    assert (body["object"], body["model"]) == ("text_completion", "tiny")
    assert body["choices"] == [
        {"text": bytes(answer).decode(), "index": 0, "logprobs": None, "finish_reason": "length"}
    ]
    assert body["usage"] == counted(5, 8)


def test_openais_client(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["tiny"]
    messages: Any = [{"role": "user", "content": "Hello"}]
    chat = official.chat.completions.create(model="tiny", messages=messages, temperature=0, max_tokens=6)
    rendered = len("user:Hello") + len("assistant:") + 3  # and three control tokens
    assert chat.choices[0].message.role == "assistant"
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (rendered, 6)
    with pytest.raises(openai.NotFoundError, match="tiny"):
        official.completions.create(model="large", prompt="Hello")


def test_a_prompt_over_the_context_is_the_clients_mistake(api: Served) -> None:
    response = api.complete("x" * 4096)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "4096" in error["message"]


def test_several_clients_at_once_get_their_own_answers(api: Served) -> None:
    prompts = ["Hello", "What is it?", "x", "Tell me about the sea, please."]
    alone = [api.complete(prompt, 20).json()["choices"][0]["text"] for prompt in prompts]
    together: dict[int, str] = {}

    def ask(number: int) -> None:
        together[number] = api.complete(prompts[number], 20).json()["choices"][0]["text"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[number] for number in range(len(prompts))] == alone


def not_ready(cluster: Served, connected: int) -> None:
    response = cluster.complete()
    assert response.status_code == 503
    error = response.json()["error"]
    message = f"Model is not ready. Required nodes: 2, connected ready nodes: {connected}"
    assert (error["message"], error["type"]) == (message, "cluster_not_ready")


def test_a_cluster_whose_nodes_come_and_go(tc: Commands, tiny: Path) -> None:
    command, api, port = tc.cluster(tiny, "--max-nodes", 2)
    cluster = Served(command, api, port)
    assert httpx.get(f"http://127.0.0.1:{api}/v1/models", timeout=60).json()["data"][0]["id"] == "tiny"
    not_ready(cluster, 0)
    nodes = {"a": tc.node(port, "a")}
    command.wait_for("node a joined")
    not_ready(cluster, 1)
    nodes["b"] = tc.node(port, "b")
    command.wait_for("^b: blocks")
    assert cluster.complete().status_code == 200

    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(cluster.complete("Go on", 4000)))
    before = until(api, "cluster", lambda view: True)["tokens"]["generated"]
    asking.start()
    until(api, "cluster", lambda view: view["tokens"]["generated"] > before)
    nodes["a"].send(signal.SIGKILL)
    asking.join(60)
    assert answers[0].status_code == 500
    assert answers[0].json()["error"]["type"] == "server_error"
    command.wait_for("the run failed: node a was lost")
    not_ready(cluster, 1)

    tc.node(port, "c")
    command.wait_for("^c: blocks")
    assert cluster.complete().status_code == 200
    assert not re.search("Traceback|internal error", command.err), command.err
