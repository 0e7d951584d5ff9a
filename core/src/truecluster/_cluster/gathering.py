"""When there are enough nodes: the least that the user wants, with memory for the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from truecluster.api import PlanError

from .nodes import Nodes
from .planning import Planned
from .report import Report
from .session import NodeSession, by_name

Found = tuple[Sequence[NodeSession], Planned]


@attrs.define(eq=False)
class Gathering:
    """``least`` nodes are waited for; ``plan`` raises `PlanError` where the model doesn't fit on those given."""

    nodes: Nodes
    plan: Callable[[Sequence[NodeSession]], Planned]
    least: int
    report: Report
    trouble: PlanError | None = None
    _said: str = ""

    @property
    def required(self) -> int:
        """How many nodes it takes, as far as that can be told."""
        return max(self.least, len(self.nodes.ready()) + 1 if self.trouble else 0)

    def now(self) -> Found | None:
        """A plan over the fewest of the nodes that are ready; ``None``, and a line that says why, where there is none.

        Those that could not load a run come last.
        """
        ready = sorted(self.nodes.ready(), key=lambda session: (session.failures, by_name(session)))
        found, self.trouble = self._fewest(ready)
        self._say("" if found else self._why(len(ready)))
        return found

    def _fewest(self, ready: Sequence[NodeSession]) -> tuple[Found | None, PlanError | None]:
        """The first plan that gives the whole context, else the one over most nodes; or what is wrong with the last."""
        found: Found | None = None
        trouble: PlanError | None = None
        for count in range(self.least, len(ready) + 1):
            try:
                planned = self.plan(ready[:count])
            except PlanError as error:
                trouble = error
                continue
            found = ready[:count], planned
            if planned.fitted.reduction is None:
                break
        return found, None if found else trouble

    def _why(self, ready: int) -> str:
        if self.trouble is None:
            return f"waiting for nodes: {ready} of {self.least} are here"
        return f"waiting for another node, {ready} are here: {self.trouble}"

    def _say(self, line: str) -> None:
        if line and line != self._said:
            self.report.say(line)
        self._said = line
