"""What a request is answered depends on nothing but the request: not on a lost node, on others, or on the split."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from commands import Commands, Served, until

PROMPT = "Count with me: one, two,"


def ask(port: int, prompt: str = PROMPT, tokens: int = 24) -> httpx.Response:
    body: dict[str, Any] = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    return httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60)


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_a_replaced_node_starts_no_sequence_in_the_middle(tc: Commands, tiny: Path) -> None:
    """NUM-03: the request that lost its node fails; the next one is answered as if nothing had been."""
    cluster, api, port = tc.cluster(tiny, "--max-nodes", 2)
    nodes = [tc.node(port, name) for name in "ab"]
    cluster.wait_for("^b: blocks")
    whole = text(ask(api))
    with ThreadPoolExecutor() as pool:
        broken = pool.submit(ask, api, tokens=3000)
        until(api, "cluster", lambda view: view["tokens"]["generated"] > 24)
        assert not broken.done(), "the request ended before its node was lost"
        nodes[1].send(signal.SIGKILL)
        failed = broken.result()
    assert failed.status_code >= 500
    assert "failed while answering" in failed.json()["error"]["message"]
    tc.node(port, "c")
    cluster.wait_for("^c: blocks")
    assert text(ask(api)) == whole


def test_others_change_nothing(served: Served) -> None:
    """NUM-06: alone, and with seven others of other lengths, whose prompts are chunked differently beside it."""
    alone = text(ask(served.api))
    with ThreadPoolExecutor(8) as pool:
        prompts = [PROMPT, *("x" * (3 + 97 * i) for i in range(7))]
        answers = [pool.submit(ask, served.api, prompt) for prompt in prompts]
        together = [text(answer.result()) for answer in answers]
    assert together[0] == alone
    assert [text(ask(served.api, prompt)) for prompt in prompts] == together
