"""Prints the tables; ``--json FILE`` writes what they show."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..native import library
from . import decoder, linears, peer

RECIPES = (("int4.g32.asym", "int8"), ("int4.g32.asym", "int4.g32.asym"), ("int8", "int8"), ("fp16", "fp16"))
LEVELS = ("plain C", "AVX2", "AVX-512 with VNNI")


def main() -> None:
    options = parsed()
    torch.set_num_threads(options.threads)
    found: dict[str, Any] = {"threads": options.threads, "level": LEVELS[library().tc_level()]}
    print(f"{found['level']}, {options.threads} threads")
    with torch.inference_mode():
        if not options.skip_linears:
            found["linears"] = {f"{o}x{i}": table(o, i, options.runs) for o, i in ((4864, 896), (896, 4864))}
        found["decoder"] = [line(*recipe, options) for recipe in RECIPES[: options.recipes]]
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tcplug_cpu_kernels.bench", description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--runs", type=int, default=50, help="calls per figure")
    parser.add_argument("--recipes", type=int, default=len(RECIPES), help="how many of the decoders to measure")
    parser.add_argument("--skip-linears", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--llama-bench", help="llama.cpp's program, to compare with; needs --gguf")
    parser.add_argument("--gguf", help="the same model at about the same width, such as Q4_0")
    parser.add_argument("--rounds", type=int, default=5, help="turns of ours and llama.cpp")
    return parser.parse_args()


def table(out: int, width: int, runs: int) -> dict[str, dict[str, float]]:
    """Of one shape, printed."""
    found = linears.measure(out, width, runs)
    print(f"\nmicroseconds, {out} x {width}" + "".join(f"{rows:>9}" for rows in linears.ROWS) + "  rows")
    for name, times in found.items():
        print(f"{name:>24}" + "".join(f"{times[str(rows)]:9.0f}" for rows in linears.ROWS))
    return found


def line(format: str, head: str, options: argparse.Namespace) -> dict[str, Any]:
    """Of one recipe, printed, beside llama.cpp where that is given."""
    model = decoder.Decoder(decoder.Shape(), format, head)
    found = decoder.measure(model, options.runs)
    print(
        f"\n{format}, head {head}: token {found['token_ms']:.1f} ms (best {found['best_token_ms']:.1f}), its linears "
        f"{found['linears_ms']:.1f}, around them {found['around_ms']:.1f} (best {found['best_around_ms']:.1f}); "
        f"prefill {found['prefill_tok_s']:.0f} tok/s"
    )
    if not options.llama_bench:
        return {"format": format, "head": head, **found}
    theirs = partial(peer.run, options.llama_bench, options.gguf, options.threads)
    compared = peer.compare(partial(decoder.measure, model, 64), theirs, options.rounds)
    for name, rates in compared.items():
        print(f"  {name}: {rates['ours']:.1f}, llama.cpp {rates['peer']:.1f}, share {rates['share']:.2f}")
    return {"format": format, "head": head, **found, "peer": compared}


if __name__ == "__main__":
    main()
