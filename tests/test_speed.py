"""What nodes measure when they join decides the split where a planner asks for it, and changes no token."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
from commands import Commands, Ended, Served
from tiny_checkpoints import write_tiny

SLOW = {"PYTHONPATH": str(Path(__file__).parent / "plugins")}
LAYERS, TOKENS, ASKED = 24, 16, "Which of you two is faster?"


def blocks(span: str) -> int:
    """``blocks 3-7`` has five."""
    first, _, last = span.removeprefix("blocks ").partition("-")
    return int(last or first) - int(first) + 1


def by_transformers(model: Path) -> str:
    """The greedy answer: a token is a letter's number, and those above are control tokens, which aren't shown."""
    import torch
    from transformers import AutoModelForCausalLM

    made = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    prompt = torch.tensor([list(ASKED.encode())])
    answer = made.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TOKENS, do_sample=False)
    return "".join(chr(token) for token in answer[0, prompt.shape[1] :].tolist() if token < 128)


def test_unlike_machines_get_unlike_spans_and_give_the_same_tokens(
    tc: Commands, tc_here: Callable[..., Ended], tmp_path: Path
) -> None:
    deep = write_tiny(tmp_path / "deep", num_hidden_layers=LAYERS)
    cluster, api, port = tc.cluster(deep, "--planner", "speed", "--max-nodes", 2)
    tc.node(port, "a")
    tc.node(port, "b", "--device", "slow", env=SLOW)
    cluster.wait_for("^b: blocks")
    view = httpx.get(f"http://127.0.0.1:{api}/cluster", timeout=60).json()
    speed = {node["id"]: node["speed"] for node in view["nodes"]}
    count = {node["id"]: blocks(node["span"]) for node in view["nodes"]}
    assert speed["a"] > speed["b"]
    assert sum(count.values()) == LAYERS
    assert count["a"] > count["b"]
    assert abs(count["a"] - LAYERS * speed["a"] / sum(speed.values())) < 1
    answer = Served(cluster, api, port).complete(ASKED, model="deep", max_tokens=TOKENS)
    assert answer.json()["choices"][0]["text"] == by_transformers(deep)
    table = tc_here("plan", "--url", f"http://127.0.0.1:{api}").out
    assert [line.split()[-1] for line in table.splitlines()[:4]] == [
        "GB/S",
        "-",
        *(f"{speed[name] / 1e9:.1f}" for name in "ab"),
    ]
    even = tc_here("plan", "--url", f"http://127.0.0.1:{api}", "--model", deep, "--json")
    assert [blocks(stage["span"]) for stage in json.loads(even.out)["stages"][1:]] == [LAYERS // 2] * 2
