"""What `bench/serve.py` is told."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .target import Unfit
from .work import Mix

RESULTS = Path(__file__).parents[1] / "results"
STARTED = {"quant": "int4", "nodes": 2, "head": "coordinator", "transport": "tcp"}
"""Options of a server that is started here, and their defaults."""
AUTO_SHARE = 0.7
"""The rate of an open loop that wasn't given, as a share of what closed loops reached."""


def parse(about: str | None, words: Sequence[str] | None) -> argparse.Namespace:
    """The options, each by itself sound. Ends the process where one isn't, or with help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    _add_servers(parser.add_argument_group("servers"))
    _add_load(parser.add_argument_group("load"))
    return parser.parse_args(words)


def check(given: argparse.Namespace) -> None:
    """Raises `Unfit` for options that don't go together."""
    own = [f"--{name}" for name in STARTED if getattr(given, name)]
    if given.url is not None and own:
        raise Unfit(f"{own[0]} is of a server that is started here, but --url names one that runs; leave out one")
    if (given.llama_server is None) != (given.llama_gguf is None):
        raise Unfit("--llama-server and --llama-gguf go together: the program, and the model that it serves")
    for path in (given.llama_server, given.llama_gguf):
        if path is not None and not path.is_file():
            raise Unfit(f"{path} is no file; give llama.cpp's program and a GGUF file")
    if not given.closed and given.open is None:
        raise Unfit("without a closed loop there is no rate to go by; give --open requests per second")


def _add_servers(group: Any) -> None:
    key, program, gguf = (os.environ.get(name) for name in ("OPENAI_API_KEY", "LLAMA_SERVER", "LLAMA_GGUF"))
    group.add_argument("--url", metavar="URL", help="base URL of a running server, such as http://127.0.0.1:8000/v1")
    group.add_argument("--api-key", metavar="KEY", default=key, help="of that server [$OPENAI_API_KEY]")
    group.add_argument("--model", metavar="NAME", help="which of its models [the first]; else the one to start with")
    for name, default in STARTED.items():
        kind = _whole if isinstance(default, int) else str
        group.add_argument(
            f"--{name}", type=kind, metavar=name.upper(), help=f"of the `tc run` started here [{default}]"
        )
    group.add_argument("--threads", type=_whole, metavar="N", default=2, help="CPU threads of each process started [2]")
    group.add_argument("--slots", type=_whole, metavar="N", default=8, help="requests that they answer at once [8]")
    path = {"type": Path, "metavar": "FILE"}
    group.add_argument("--llama-server", **path, default=program, help="program to compare with [$LLAMA_SERVER]")
    group.add_argument("--llama-gguf", **path, default=gguf, help="the model that it serves [$LLAMA_GGUF]")
    group.add_argument("--timeout", type=_positive, metavar="SECONDS", default=120.0, help="longest silence [120]")


def _add_load(group: Any) -> None:
    lengths = {"type": _wholes, "metavar": "N,N"}
    group.add_argument("--closed", **lengths, default=[1, 8], help="clients of each closed loop, or none [1,8]")
    group.add_argument("--open", type=_rates, metavar="R,R", help=OPEN_HELP)
    group.add_argument("--requests", type=_whole, metavar="N", default=16, help="requests of every load [16]")
    group.add_argument("--warmup", type=_whole, metavar="N", default=8, help="requests before it, not counted [8]")
    group.add_argument("--rounds", type=_whole, metavar="N", default=1, help="how often each server gets them all [1]")
    mix = Mix()
    group.add_argument("--prompt-tokens", **lengths, default=mix.prompts, help="lengths, roughly [32,128,512]")
    group.add_argument("--answer-tokens", **lengths, default=mix.answers, help="most tokens [32,64,128]")
    group.add_argument("--chat", action="store_true", help="ask /chat/completions instead of /completions")
    group.add_argument("--body", type=_object, metavar="JSON", default={}, help="more fields of every request")
    group.add_argument("--seed", type=int, metavar="N", default=0, help="of prompts, lengths and arrivals [0]")
    group.add_argument("--json", type=Path, metavar="FILE", default=RESULTS / "serve.json", help="all samples go there")


OPEN_HELP = f"requests a second of each open loop (Poisson), or none [{AUTO_SHARE} of what closed loops reached]"


def _whole(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1 on")
    return int(word)


def _positive(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is no number above 0")
    return value


def _wholes(word: str) -> list[int]:
    return [] if word == "none" else [_whole(each) for each in word.split(",")]


def _rates(word: str) -> list[float]:
    return [] if word == "none" else [_positive(each) for each in word.split(",")]


def _object(word: str) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{word!r} is no JSON object")
    return found
