"""Writes ``gguf.json``: what transformers answers with the real models' GGUF files, computed in fp32.

    python tests/golden/from_gguf.py FOLDER/smollm2-135m-instruct.gguf
    python tests/golden/from_gguf.py FOLDER/qwen2.5-coder-0.5b-instruct.gguf

The prompts are those of ``golden.json``, in tokens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

HERE = Path(__file__).parent
TOKENS = 24


@torch.no_grad()
def answer(network: Any, ids: list[int]) -> tuple[list[int], list[float]]:
    """The greedy tokens, and at each step the margin between the two best logits."""
    tokens: list[int] = []
    margins: list[float] = []
    fresh, cache = torch.tensor([ids]), None
    for _ in range(TOKENS):
        out = network(fresh, cache=cache, use_cache=True)
        best = out.logits[0, -1].float().topk(2)
        tokens.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 4))
        fresh, cache = best.indices[:1][None], out.past_key_values
    return tokens, margins


def main(path: Path) -> None:
    prompts, written = json.loads((HERE / "golden.json").read_text())[path.stem], HERE / "gguf.json"
    network = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).eval()
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    cases = []
    for prompt in prompts:
        tokens, margins = answer(network, prompt["ids"])
        same = {key: prompt[key] for key in ("kind", "prompt", "ids")}
        cases.append({**same, "greedy": tokens, "greedy_margin": margins})
    known: dict[str, Any] = json.loads(written.read_text()) if written.exists() else {}
    reference = f"transformers {transformers.__version__}, torch {torch.__version__} CPU, fp32, the GGUF file itself"
    made = {**known, "meta": {"reference": f"{reference}; greedy, {TOKENS} tokens"}, path.stem: cases}
    written.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
