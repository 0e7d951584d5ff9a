"""Every area in turn, each bounded in time and none able to stop the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from truecluster._registry import Registry

from . import devices, folders, machine, models, network, plugins
from .finding import FAIL, Finding

AREA_S = 60.0
"""What an area has not found by then is taken to hang."""


@attrs.frozen
class Asked:
    """What to look at: what is installed and selected, and the folder of packed weights."""

    registry: Registry
    work_dir: Path


Look = Callable[[Asked], Iterable[Finding]]
AREAS: Mapping[str, Look] = {
    "machine": lambda asked: machine.look(),
    "folders": lambda asked: folders.look(asked.work_dir),
    "network": lambda asked: network.look(),
    "plugins": lambda asked: plugins.look(asked.registry),
    "devices": lambda asked: devices.look(asked.registry),
    "kernels": lambda asked: devices.look_at_kernels(asked.registry),
    "models": lambda asked: models.look(asked.registry),
}


def survey(asked: Asked, areas: Mapping[str, Look] = AREAS, patience: float = AREA_S) -> Iterator[tuple[str, Finding]]:
    """Findings as they are made, with the area of each; ``patience`` in seconds for one area."""
    for name, look in areas.items():
        for finding in _bounded(name, look, asked, patience):
            yield name, finding


def _bounded(name: str, look: Look, asked: Asked, patience: float) -> list[Finding]:
    """What was found until the end, or until time ran out; a thread that hangs is left to itself."""
    found: list[Finding] = []

    def work() -> None:
        try:
            found.extend(look(asked))
        except (Exception, SystemExit) as error:
            text = f"looking failed: {type(error).__name__}: {error}"
            found.append(Finding(name, text, FAIL, "mend what it names, or report this as a fault of TrueCluster"))

    thread = threading.Thread(target=work, name=f"doctor-{name}", daemon=True)
    thread.start()
    thread.join(patience)
    late = Finding(name, f"no answer within {patience:g} s", FAIL, "leave out what hangs with --without-plugins")
    return [*found, *([late] if thread.is_alive() else [])]
