"""Compute in one process: what a token costs beside its linears, and how a peer does on the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.figures import Figure, Settings, Skip

AROUND_MS = 4.0
SHOWN = {"decode_tok_s": "decode", "prefill_tok_s": "prefill 128"}
TOKENS = 6
"""Timed for each of the settings' runs."""


def kernels(settings: Settings) -> Iterator[Figure]:
    """Qwen2.5-Coder-0.5B's shape after 128 tokens: best token less best of its linears back to back, taken in turns."""
    for found in _bench(settings, ["--runs", str(TOKENS * settings.runs)])["decoder"]:
        name = f"{found['format']}, head {found['head']}"
        around = f"token {found['best_token_ms']:.1f} ms"
        yield Figure(
            name=f"around linears, {name}",
            samples=[found["best_around_ms"]],
            unit="ms",
            higher=False,
            target=AROUND_MS,
            how=around,
        )
        yield Figure(name=f"decode, {name}", samples=[1e3 / found["best_token_ms"]], unit="tok/s")


def llama_cpp(settings: Settings) -> Iterator[Figure]:
    """int4 blocks, int8 head, against llama-bench ($LLAMA_BENCH) on a Q4_0 file ($LLAMA_GGUF), in turns; medians."""
    program, model = os.environ.get("LLAMA_BENCH"), os.environ.get("LLAMA_GGUF")
    if not program or not model:
        raise Skip("needs $LLAMA_BENCH, llama.cpp's program, and $LLAMA_GGUF, the 0.5B model as Q4_0")
    peer = ["--recipes", "1", "--llama-bench", program, "--gguf", model, "--rounds", str(settings.runs)]
    for key, found in _bench(settings, ["--runs", "10", *peer])["decoder"][0]["peer"].items():
        how = f"ours {found['ours']:.1f} tok/s, llama.cpp {found['peer']:.1f}"
        yield Figure(name=f"{SHOWN[key]}, share of llama.cpp", samples=[found["share"]], unit="", how=how)


def _bench(settings: Settings, arguments: Sequence[str]) -> Any:
    """What `python -m tcplug_cpu_kernels.bench` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.json"
        command = [sys.executable, "-m", "tcplug_cpu_kernels.bench", "--skip-linears", "--json", str(path)]
        subprocess.run(
            [*command, "--threads", str(settings.threads), *arguments], check=True, stdout=subprocess.DEVNULL
        )
        return json.loads(path.read_text())
