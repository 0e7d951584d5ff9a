"""The weights of one stage on their way to its node: what it has is checked, the rest pushed, all of it loaded."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import attrs

from truecluster._weights.catalog import Unit
from truecluster._wire import messages as wire
from truecluster.api import NodeError, TransportError, WeightsProgress

from .push import Push
from .remote import RemoteStage, Word
from .report import Advance
from .resources import Resources
from .session import NodeSession

LOOK_SECONDS = 0.5
"""Between two looks at how far a node is; it says so with every heartbeat."""


@attrs.frozen(kw_only=True)
class Moved:
    """Bytes of one stage's weights: from its node's store, and over the wire."""

    node: str
    stored: int
    sent: int

    @property
    def total(self) -> int:
        """Bytes of all its weights."""
        return self.stored + self.sent


def together(moved: Sequence[Moved]) -> Moved:
    """The sum, of no node in particular."""
    return Moved(node="", stored=sum(each.stored for each in moved), sent=sum(each.sent for each in moved))


@attrs.frozen(kw_only=True)
class Delivery:
    """`need`, then `push` and `loaded`, whose time is `all_in_time`'s to keep."""

    remote: RemoteStage
    units: Sequence[Unit]
    resources: Resources

    @property
    def node(self) -> str:
        return self.remote.session.id

    async def need(self) -> wire.Need:
        """What the node lacks, once it was told its assignment."""
        return await self._word("checking", wire.Need, self.resources.settings.ready_timeout)

    async def push(self, need: wire.Need, inbound_ticket: bytes, outbound_ticket: bytes) -> int:
        """Send that, and that it was all, with tickets of the edges that the node dials. Returns the bytes sent."""
        bulk = self.remote.session.bulk
        assert bulk is not None
        push = Push.of(need, bulk, self.resources.model.catalog, self.units)

        def progress(done: int) -> None:
            self._advance(advance, done)
            self.resources.events.emit(WeightsProgress(run=need.run, node=self.node, done=done, total=push.total))

        order = wire.WeightsComplete(run=need.run, inbound_ticket=inbound_ticket, outbound_ticket=outbound_ticket)
        try:
            with self.resources.report.task(f"sending weights to {self.node}", push.total) as advance:
                sent = await push.send(progress)
            with anyio.CancelScope(shield=True):
                await bulk.send(order)
        except TransportError as error:
            self.remote.session.lose(f"weights can't be sent to it: {error}")
            raise self.remote.fault or error from error
        return sent

    async def loaded(self, sent: int) -> tuple[wire.LoadComplete, Moved]:
        """The stage is ready. Raises `NodeError` where the node counts other bytes than were ``sent``."""
        ready = await self._word("loading", wire.LoadComplete, None)
        moved = Moved(node=self.node, stored=total_bytes(self.units) - sent, sent=sent)
        if (ready.from_store_bytes, ready.received_bytes) != (moved.stored, moved.sent):
            raise NodeError(f"node {self.node} says that it received {ready.received_bytes} bytes of {sent}")
        return ready, moved

    def __str__(self) -> str:
        """How far the node is, for the user."""
        done, total = self.remote.session.pong.done_bytes / 1e6, total_bytes(self.units) / 1e6
        return f"node {self.node} has loaded {done:.1f} of {total:.1f} MB"

    async def _word(self, doing: str, kind: type[Word], timeout: float | None) -> Word:
        """A word that may be long in coming; meanwhile the node says how far it is."""
        with self.resources.report.task(f"{doing} weights on {self.node}", total_bytes(self.units)) as advance:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_follow, self.remote.session, advance)
                word = await self.remote.expect(kind, timeout)
                tasks.cancel_scope.cancel()
        return word

    def _advance(self, advance: Advance, done: int) -> None:
        """A node that gave up needs no more."""
        if self.remote.fault is not None:
            raise self.remote.fault
        advance(done)


async def _follow(session: NodeSession, advance: Advance) -> None:
    while True:
        await anyio.sleep(LOOK_SECONDS)
        advance(session.pong.done_bytes)


async def all_in_time(deliveries: Sequence[Delivery], pushed: anyio.Semaphore, timeout: float) -> None:
    """Raise `NodeError` once every node has had its weights for so many seconds, and one isn't ready.

    ``pushed`` is released for each. Sending takes as long as it takes: a connection on which nothing moves breaks by
    itself.
    """
    for _ in deliveries:
        await pushed.acquire()
    await anyio.sleep(timeout)
    late = [delivery for delivery in deliveries if not delivery.remote.has_said(wire.LoadComplete)]
    for delivery in late:
        delivery.remote.session.failures += 1
    raise NodeError(
        f"not ready {timeout:g} s after all weights were sent: {', '.join(map(str, late))}; "
        "if that is only slow, raise --ready-timeout"
    )


def total_bytes(units: Sequence[Unit]) -> int:
    """Of units, each once."""
    return sum({unit.digest: unit.nbytes for unit in units}.values())
