"""Watching the nodes of a run: how long each may be silent in each phase, and whether steps are answered in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import anyio
import attrs

from truecluster._pipeline.run import Run
from truecluster._wire.silence import LOOK, SILENCE, Silence
from truecluster.api import NodeError

from .session import NodeSession
from .settings import RunSettings


@attrs.frozen(eq=False)
class Vigil:
    """A node that loads or computes may hold its interpreter for long; it is silent then, and not lost."""

    sessions: Sequence[NodeSession]
    settings: RunSettings

    def loading(self) -> None:
        """From the assignment on."""
        self._bear(lambda: self.settings.ready_timeout)

    def stopping(self) -> None:
        """While stages end."""
        self._bear(lambda: self.settings.stop_timeout)

    def over(self) -> None:
        """The nodes have nothing to do."""
        self._bear(lambda: SILENCE)

    async def steps(self, run: Run) -> None:
        """Watch a run at work until it ends, and fault it where a step takes too long."""
        self._bear(lambda: self.settings.step_timeout if run.in_flight else SILENCE)
        silence, answered = Silence(lambda: self.settings.step_timeout), run.answered
        while not run.ended:
            before = time.monotonic()
            await anyio.sleep(LOOK)
            if run.answered != answered or not run.in_flight:
                silence.heard()
                answered = run.answered
            elif silence.passed(time.monotonic() - before):
                run.fault(NodeError(self._too_slow(run)))

    def _bear(self, patience: Callable[[], float]) -> None:
        for session in self.sessions:
            session.patience = lambda: max(SILENCE, patience())

    def _too_slow(self, run: Run) -> str:
        since = {session.id: session.pong.busy_since_s for session in self.sessions}
        busy = [f"node {id} has been busy with it for {s:.0f} s" for id, s in since.items() if s is not None]
        return (
            f"step {run.answered} was not answered within {self.settings.step_timeout:g} s: "
            f"{', '.join(busy) or 'no node says that it is busy with it'}; "
            "if the nodes are that slow, raise --step-timeout"
        )
