"""What the settings of OpenMP do to two nodes that take turns."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from tools.figures import Figure, Settings
from tools.server import Server

from .split import PROMPT, TOKENS, arguments

QUANT = "int4"
POLICIES: dict[str, tuple[int, dict[str, str]]] = {
    "as it comes": (2, {}),
    "spin count 0": (2, {"GOMP_SPINCOUNT": "0"}),
    "spin count 1000": (2, {"GOMP_SPINCOUNT": "1000"}),
    "spin count 10000": (2, {"GOMP_SPINCOUNT": "10000"}),
    "spin count 100000": (2, {"GOMP_SPINCOUNT": "100000"}),
    "passive": (2, {"OMP_WAIT_POLICY": "passive"}),
    "active": (2, {"OMP_WAIT_POLICY": "active"}),
    "divided": (1, {}),
}


def policies(settings: Settings) -> Iterator[Figure]:
    """SmolLM2, int4: decode of two nodes under an environment of every process, in turn with one stage under none."""
    with Server(arguments(QUANT, "memory", 1, settings)) as one:
        for name, (threads, environment) in POLICIES.items():
            with Server(arguments(QUANT, "tcp", 2, attrs.evolve(settings, threads=threads)), environment) as two:
                yield _figure(name, one, two, settings.runs)


def _figure(name: str, one: Server, two: Server, runs: int) -> Figure:
    two.timed(PROMPT, TOKENS)
    pairs = [(one.decode_rate(PROMPT, TOKENS), two.decode_rate(PROMPT, TOKENS)) for _ in range(runs)]
    singles, doubles = zip(*pairs, strict=True)
    how = f"best of two nodes {max(doubles):.1f} tok/s / best of one stage {max(singles):.1f}"
    return Figure(name=f"two / one, {name}", samples=[max(doubles) / max(singles)], unit="", how=how)
