"""What the contract of edges opens, sends and compares."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Literal

import attrs
import pytest
import torch

from truecluster._wire.handshake import MAGIC, PROTOCOL, Purpose, prover
from truecluster.api import (
    Edge,
    EdgeBroken,
    EdgeEnded,
    EdgeRole,
    EdgeTerms,
    EdgeTransport,
    Place,
    Read,
    TransportSpec,
    Write,
)

from ._transports import TransportGiven
from .rules import require

KEY = b"the key of the contract"
PEER_GONE = (EdgeEnded, EdgeBroken)
Prove = Callable[[Read, Write, bool], None]
Route = Literal["direct", "reversed", "relayed"]


@attrs.frozen
class Ends:
    """Both ends of an open edge."""

    producer: Edge
    consumer: Edge


Opened = Callable[..., "AbstractContextManager[Ends]"]


@attrs.frozen(eq=False)
class Message:
    """What an edge carries at once."""

    header: bytes
    tensors: Sequence[torch.Tensor] = ()

    def __str__(self) -> str:
        shapes = [f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in self.tensors]
        return f"header {self.header!r}, tensors {', '.join(shapes) or 'none'}"


class EdgeGiven(TransportGiven):
    """Opens edges by every route that the transport offers."""

    max_header = 1000

    @pytest.fixture
    def edges(self, transport: Any, spec: TransportSpec) -> EdgeTransport:
        """The transport, where it offers edges."""
        return self.offered(transport, EdgeTransport, "edges", spec.edges)  # type: ignore[type-abstract]

    @pytest.fixture(params=["direct", "reversed", "relayed"])
    def route(self, request: pytest.FixtureRequest, spec: TransportSpec) -> Route:
        """The consumer offers, or the producer does, or both dial a relay."""
        route: Route = request.param
        if route == "relayed" and not spec.relays:
            pytest.skip("it relays no edges")
        return route

    @pytest.fixture
    def opened(self, edges: EdgeTransport, route: Route) -> Opened:
        """``with opened() as ends``: an edge by the route; ``opened(timeout)`` bounds a message, in seconds."""
        return lambda timeout=self.patience_s: self.opening(edges, route, timeout)

    def terms(self, edge: str = "run 1, edge 0", prove: Prove | None = None, **changes: Any) -> EdgeTerms:
        """What core would ask for; ``changes`` replace fields of `EdgeTerms`."""
        waits = {"open_timeout": self.patience_s, "timeout": self.patience_s, "max_header": self.max_header}
        return EdgeTerms(edge=edge, host=self.host, prove=prove or prover(KEY), **{**waits, **changes})

    def open(self, edges: EdgeTransport, terms: EdgeTerms, ticket: bytes, role: EdgeRole) -> Edge:
        """An end, within a limited time."""
        return self.background(f"open as {role}", lambda: edges.open(terms, ticket, role, None)).result()

    def open_both(self, edges: EdgeTransport, terms: EdgeTerms, ticket: bytes) -> Ends:
        """The producer dials, the consumer offered."""
        return Ends(self.open(edges, terms, ticket, "producer"), self.open(edges, terms, ticket, "consumer"))

    @contextmanager
    def opening(self, edges: EdgeTransport, route: Route, timeout: float) -> Iterator[Ends]:
        """By ``route``; whoever dials is there before the other asks for its own end."""
        terms = self.terms(timeout=timeout)
        if route == "relayed":
            relay = edges.relay(terms, terms)
            running = self.background("a relay's run", relay.run)
            ends = self.dialling(
                edges, terms, (("producer", relay.producer_ticket), ("consumer", relay.consumer_ticket))
            )
        else:
            offerer: EdgeRole = "consumer" if route == "direct" else "producer"
            dialler: EdgeRole = "producer" if route == "direct" else "consumer"
            ticket = edges.offer(terms, offerer)
            ends = self.dialling(edges, terms, ((dialler, ticket), (offerer, ticket)))
        try:
            yield ends
        finally:
            self.end(ends)
            if route == "relayed":
                with suppress(Exception):  # how it ends is the matter of a rule
                    relay.close()
                    running.result()

    def dialling(self, edges: EdgeTransport, terms: EdgeTerms, order: Sequence[tuple[EdgeRole, bytes]]) -> Ends:
        """Both ends, opened in ``order``."""
        ends = {role: self.open(edges, terms, ticket, role) for role, ticket in order}
        return Ends(ends["producer"], ends["consumer"])

    def end(self, *opened: Ends) -> None:
        """Let go of both ends, whatever state they are in."""
        for edge in (edge for ends in opened for edge in (ends.producer, ends.consumer)):
            for what in (edge.abort, edge.close):
                with suppress(Exception):
                    self.background("an end", what).result()

    def send(self, ends: Ends, *messages: Message) -> Any:
        """Send them in a thread; its ``result()`` waits for the end."""
        return self.background("send", lambda: [ends.producer.send(each.header, each.tensors) for each in messages])

    def receive(self, ends: Ends, *messages: Message) -> None:
        """What is received must be ``messages``, in this order; it has room that holds other bits before."""

        def receive() -> None:
            for number, sent in enumerate(messages):
                places = [torch.ones_like(tensor) for tensor in sent.tensors]
                self.check_header(sent, ends.consumer.recv(self.placing(sent, places, number)), number)
                wrong = [at for at, pair in enumerate(zip(sent.tensors, places, strict=True)) if not _same(*pair)]
                came = f"other bits in tensor {wrong[:1]}"
                require(not wrong, "all bits as they were sent", came, message=number, sent=str(sent))

        self.background("recv", receive).result()

    def placing(self, sent: Message, places: Sequence[torch.Tensor], number: int) -> Place:
        """The place of the message that comes next; another one is not let in."""

        def place(header: bytes) -> Sequence[torch.Tensor]:
            self.check_header(sent, header, number)
            return places

        return place

    def check_header(self, sent: Message, header: bytes, number: int) -> None:
        """It must be the one that was sent."""
        require(header == sent.header, f"header {sent.header!r}", repr(header), message=number)

    def exchange(self, ends: Ends, *messages: Message) -> None:
        """Send and receive them at once."""
        sending = self.send(ends, *messages)
        self.receive(ends, *messages)
        sending.result()

    def flood(self, ends: Ends, sent: list[int]) -> Any:
        """Send numbered messages for as long as somebody takes them, at most three times what may be buffered."""
        piece = torch.zeros(self.most_buffered // 64, dtype=torch.uint8)

        def flood() -> None:
            for i in range(3 * 64):
                ends.producer.send(b"%d" % i, [piece])
                sent.append(piece.nbytes)

        return self.background("send", flood)

    def works(self, ends: Ends) -> None:
        """A message gets through, and the edge is ended."""
        self.exchange(ends, Message(b"hello", [torch.arange(4)]))
        self.end(ends)

    def gone(self, producer: Edge) -> None:
        """Send until it fails: the end of the peer may take a moment to be known."""
        for _ in range(int(self.patience_s / 0.01)):
            self.background("send", lambda: producer.send(b"h", [torch.zeros(4)])).result()
            time.sleep(0.01)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit for bit."""
    if not a.numel():  # whose stride may be anything
        return a.shape == b.shape
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def nowhere(header: bytes) -> list[torch.Tensor]:
    """The place of a message without tensors."""
    return []


def to(places: Sequence[torch.Tensor]) -> Place:
    """The place of any message."""
    return lambda header: places


GREETING = struct.pack(">8sHB32s", MAGIC, PROTOCOL, Purpose.EDGE, bytes(range(32)))
FOREIGN = struct.pack(">8sHB32s", MAGIC, PROTOCOL + 1, Purpose.EDGE, bytes(range(32)))


def saying(data: bytes, expecting: int = 0) -> Prove:
    """A peer that says ``data`` instead of a handshake, and listens for ``expecting`` bytes."""

    def prove(read: Read, write: Write, dialer: bool) -> None:
        if data:
            write(data)
        if expecting:
            read(expecting)

    return prove


def silent_after(data: bytes) -> Prove:
    """A peer that says ``data`` and then waits for what never comes."""
    return saying(data, 1 << 12)
