"""Telling nodes that the run at work does without them, and their user that they wait."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from .nodes import Nodes
from .report import Report


@attrs.define(eq=False)
class Spares:
    """``used`` are the nodes of the run at work, ``None`` where there is none and every node may be used."""

    nodes: Nodes
    report: Report
    used: Collection[str] | None = None

    def use(self, used: Collection[str] | None) -> None:
        """A run is at work on these nodes, or none is any more."""
        self.used = used
        self._mark()

    async def watch(self) -> None:
        """Nodes that join later are spares too."""
        while True:
            changed = self.nodes.changed
            self._mark()
            await changed.wait()

    def _mark(self) -> None:
        new = []
        for session in self.nodes.ready():
            spare = self.used is not None and session.id not in self.used
            new += [session.id] if spare and not session.spare else []
            session.spare = spare
        if new:
            waits = "waits as a spare" if len(new) == 1 else "wait as spares"
            self.report.say(f"not needed now: {', '.join(sorted(new))} {waits} for the next run")
