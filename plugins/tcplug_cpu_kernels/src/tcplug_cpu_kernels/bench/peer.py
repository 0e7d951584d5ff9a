"""llama.cpp's llama-bench, taken in turns with ours, so that both see the same machine."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable
from typing import Any


def run(program: str, model: str, threads: int) -> dict[str, float]:
    """Tokens a second of one prompt of 128 and of 64 tokens after it. Raises `subprocess.CalledProcessError`."""
    command = [program, "-m", model, "-t", str(threads), "-p", "128", "-n", "64", "-r", "1", "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rates = {bool(row["n_prompt"]): row["avg_ts"] for row in json.loads(done.stdout)}
    return {"prefill_tok_s": rates[True], "decode_tok_s": rates[False]}


def compare(ours: Callable[[], dict[str, float]], peer: Callable[[], dict[str, float]], rounds: int) -> dict[str, Any]:
    """Medians of each side, and of the ratios ours / peer round by round."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    decode = [(1e3 / mine["token_ms"], theirs["decode_tok_s"]) for mine, theirs in pairs]
    prefill = [(mine["prefill_tok_s"], theirs["prefill_tok_s"]) for mine, theirs in pairs]
    return {
        name: {
            "ours": statistics.median(mine for mine, _ in rates),
            "peer": statistics.median(theirs for _, theirs in rates),
            "share": statistics.median(mine / theirs for mine, theirs in rates),
        }
        for name, rates in (("decode_tok_s", decode), ("prefill_tok_s", prefill))
    }
