"""The nodes that are there, each under a name that no other has."""

from __future__ import annotations

import logging

import anyio
import attrs

from truecluster._registry import SILENT, Events
from truecluster._wire.connection import Connection
from truecluster.api import NodeError, NodeJoined, NodeLost

from .faults import Faults
from .session import NodeSession

LOG = logging.getLogger(__name__)
FAREWELL_TIMEOUT = 2.0


@attrs.define(eq=False)
class Nodes:
    """``joined`` are those with a control connection, by name; whoever waits for ``changed`` learns of all news.

    ``faults`` are those of nodes, and of runs over them.
    """

    events: Events = SILENT
    faults: Faults = attrs.field(factory=Faults)
    joined: dict[str, NodeSession] = attrs.field(factory=dict)
    changed: anyio.Event = attrs.field(factory=anyio.Event)
    _leaving: bool = False

    def ready(self) -> list[NodeSession]:
        """Nodes with both connections, in the order in which they joined."""
        return [s for s in self.joined.values() if s.bulk is not None and s.lost is None]

    async def enter(self, session: NodeSession) -> None:
        """Find a name that no other node has, or take the place of a dead connection; unless it is lost meanwhile.

        Raises `NodeError` where the node of that name is alive, and the newcomer wants no other.
        """
        wish, number = session.id, 1
        for other in [s for s in self.joined.values() if s.hello.instance == session.hello.instance]:
            session.id = other.id
            self.leave(other, "it has connected again")
        while session.lost is None and (there := self.joined.get(session.id)) is not None:
            await there.next_word()
            if there.lost is not None:
                self.leave(there, "it has connected again")
            elif session.hello.any_id:
                number += 1
                session.id = f"{wish}-{number}"
            else:
                where = f"{there.hello.hostname} (process {there.hello.pid})"
                raise NodeError(f"a node named {wish} is here already, on {where}; give another --node-id")
        if session.lost is None:
            self.joined[session.id] = session

    def complete(self, session: NodeSession, bulk: Connection) -> None:
        """Its second connection is there: it can be used."""
        session.bulk = bulk
        self._notify()
        LOG.info("node %s joined: %s on %s", session.id, session.device, session.hello.hostname)
        self.events.emit(_joined(session))

    def leave(self, session: NodeSession, why: str) -> None:
        """The end of a session; a later one of the same name is not touched."""
        session.lose(why)
        if self.joined.get(session.id) is session:
            del self.joined[session.id]
            if session.bulk is not None and not self._leaving:
                LOG.info("%s", session.lost)
                self.faults.note(str(session.lost))
                self.events.emit(NodeLost(node=session.id, reason=str(session.lost)))
        self._notify()

    async def farewell(self) -> None:
        """Tell every node that all is over."""
        self._leaving = True
        with anyio.move_on_after(FAREWELL_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for session in self.joined.values():
                    tasks.start_soon(session.farewell)

    def _notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


def _joined(session: NodeSession) -> NodeJoined:
    facts = session.facts()
    limits = [limit for limit in (facts.free, facts.bound) if limit is not None]
    return NodeJoined(node=session.id, device=session.device, memory=min(limits, default=None))
