"""The servers that rows about serving ask."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from load.samples import Sample
from load.target import Target
from load.work import counting

from .figures import Settings, Skip
from .llama import LlamaServer
from .models import largest
from .server import Server

SLOTS = 12
"""Eight streams, and room for those that come meanwhile."""
CONTEXT = 4096
ONE_STAGE = ("--transport", "memory", "--nodes", "1")


@contextmanager
def ours(quant: str, settings: Settings, place: Sequence[str] = ()) -> Iterator[Target]:
    """`tc run --serve` with two nodes, or options of another ``place``, and the larger model where it lies."""
    model = ["--model", largest(), "--quant", quant, "--work-dir", str(settings.work)]
    size = ["--threads", str(settings.threads), "--max-sequences", str(SLOTS), "--context", str(CONTEXT)]
    with Server([*model, *size, *place]) as server:
        yield Target.found(url=server.url)


@contextmanager
def llama(variable: str, width: str, settings: Settings) -> Iterator[Target]:
    """llama.cpp's server with the model that ``variable`` names."""
    program, model = os.environ.get("LLAMA_SERVER"), os.environ.get(variable)
    if not program or not model:
        raise Skip(f"needs $LLAMA_SERVER, llama.cpp's program, and ${variable}, the 0.5B model as {width}")
    with LlamaServer(Path(program), Path(model), threads=settings.threads, slots=SLOTS, context=CONTEXT) as server:
        yield Target.found(url=server.url)


def count_on(start: int, tokens: int) -> dict[str, Any]:
    """A request whose answer goes on as long as it may, and begins as no other's with another ``start``."""
    return {"prompt": counting(start), "max_tokens": tokens, "temperature": 0}


def answered(sample: Sample) -> Sample:
    """The sample; what failed ends the row."""
    if not sample.answered:
        raise SystemExit(f"a request failed: {sample.error}")
    return sample
