"""Put load on a server with OpenAI's API: closed and open loops of streamed requests; a table, and JSON with all.

Without --url it starts `tc run --serve`, by default with the 0.5B model of $TRUECLUSTER_MODELS, else SmolLM2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from load.client import Client
from load.loops import Closed, Open
from load.options import AUTO_SHARE, RESULTS, STARTED, check, parse
from load.report import Measured, failures, ratios, table
from load.target import Target, Unfit
from load.work import Mix
from rich.console import Console
from tools.llama import LlamaServer
from tools.models import largest
from tools.processes import end_children_when_told
from tools.server import Server

CONTEXT = 4096


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a load got no answer at all, 2 for what can't be measured as it was asked for."""
    given = parse(__doc__, words)
    try:
        check(given)
        with _targets(given) as targets:
            measured = measure(targets, given)
    except Unfit as error:
        print(f"serve.py: {error}", file=sys.stderr)
        return 2
    compared = ratios(measured, *targets) if len(targets) == 2 else {}
    _print(measured, compared)
    _write(given, measured, compared)
    return int(any(one.summary.tokens == 0 for one in measured))


def measure(targets: dict[str, Target], given: argparse.Namespace) -> list[Measured]:
    """Every load on every server in turn, round after round, after a warm-up. Prompts of a round are those of no other.

    Both servers of a round are asked the same.
    """
    mix = Mix(prompts=given.prompt_tokens, answers=given.answer_tokens, chat=given.chat, extra=given.body)
    for target in targets.values():
        Closed(max([1, *given.closed])).run(Client(target), mix.bodies(given.warmup, given.seed - 1))
    found: list[Measured] = []
    for round in range(given.rounds):
        for number, load in enumerate(_loads(given, found)):
            bodies = mix.bodies(given.requests, given.seed + 1000 * round + number)
            for server, target in targets.items():
                samples = load.run(Client(target), bodies)
                found.append(Measured(load=str(load), server=server, round=round, samples=samples))
    return found


def _loads(given: argparse.Namespace, found: Sequence[Measured]) -> Iterator[Closed | Open]:
    """In order; the rate of the last one may depend on what was found for those before."""
    for clients in given.closed:
        yield Closed(clients)
    for rate in given.open if given.open is not None else _bearable(found):
        yield Open(rate, given.seed)


def _bearable(found: Sequence[Measured]) -> list[float]:
    """A rate below the highest that a closed loop of the first round reached."""
    reached = max((one.summary.requests_per_s for one in found if one.round == 0), default=0.0)
    return [AUTO_SHARE * reached] if reached else []


@contextmanager
def _targets(given: argparse.Namespace) -> Iterator[dict[str, Target]]:
    """The servers to ask by name, started where that was asked for; the one to compare with is the second."""
    with ExitStack() as stack:
        if given.url is None:
            own = stack.enter_context(Server(_arguments(given)))
            targets = {"TrueCluster": Target.found(url=own.url, timeout=given.timeout)}
        else:
            asked = {"model": given.model, "key": given.api_key, "timeout": given.timeout}
            targets = {"given": Target.found(url=given.url, **asked)}
        if given.llama_server:
            size = {"threads": given.threads, "slots": given.slots, "context": CONTEXT}
            peer = stack.enter_context(LlamaServer(given.llama_server, given.llama_gguf, **size))
            targets["llama.cpp"] = Target.found(url=peer.url, timeout=given.timeout)
        yield targets


def _arguments(given: argparse.Namespace) -> list[str]:
    """Of `tc run --serve`."""
    own = {name: getattr(given, name) or default for name, default in STARTED.items()}
    options = [word for name, value in own.items() for word in (f"--{name}", str(value))]
    size = ["--threads", str(given.threads), "--max-sequences", str(given.slots)]
    return ["--model", given.model or largest(), *options, *size, "--work-dir", str(RESULTS / "weights")]


def _print(measured: Sequence[Measured], compared: Mapping[str, Mapping[str, float]]) -> None:
    Console(width=None if sys.stdout.isatty() else 160).print(table(measured))
    for load, figures in compared.items():
        print(f"{load}: the first over the second: " + ", ".join(f"{name} {x:.2f}" for name, x in figures.items()))
    for message, count in failures(measured).most_common(5):
        print(f"{count} times: {message}", file=sys.stderr)


def _write(
    given: argparse.Namespace, measured: Sequence[Measured], compared: Mapping[str, Mapping[str, float]]
) -> None:
    options = {name: str(value) for name, value in vars(given).items() if name != "api_key"}
    found = {"options": options, "measured": [one.as_json() for one in measured], "ratios": compared}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {given.json}")


if __name__ == "__main__":
    end_children_when_told()
    sys.exit(main())
