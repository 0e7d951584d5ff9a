"""How nodes talk: streams for control and weights, edges for steps.

A transport moves bytes and never reads them: framing, limits, the proof of the key and what a header means are
core's. A spec says which of the two a transport offers; what it doesn't offer is not there, or raises `PluginError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from .errors import PluginError

if TYPE_CHECKING:
    import torch
    from anyio.abc import ByteStream, Listener

    from .device import DeviceContext

Read = Callable[[int], bytes]
"""Exactly that many bytes. Raises `EdgeEnded` or `EdgeBroken`."""
Write = Callable[[bytes], None]
EdgeRole = Literal["producer", "consumer"]
"""Which end of an edge."""
Place = Callable[[bytes], Sequence["torch.Tensor"]]
"""Header → the tensors to fill, in order; core's. It raises, and the edge is then broken, if the header is wrong."""


class StreamTransport(ABC):
    """Async byte streams between a coordinator and its nodes.

    Streams end as anyio's do: `EndOfStream` by the peer, `ClosedResourceError` by this side, `BrokenResourceError`
    otherwise. Every wait can be cancelled; a ``receive`` that is cancelled loses no byte. A stream that has an address
    of its own gives it as anyio's ``SocketAttribute.local_address``: neighbours reach a node's edges there.
    """

    @abstractmethod
    async def listen(self, host: str, port: int) -> Listener[ByteStream]:
        """Bind now; port 0 takes a free one. Raises `AddressError` naming the address and the remedy."""

    @abstractmethod
    async def connect(self, host: str, port: int) -> ByteStream:
        """Raises `AddressError` naming the address."""

    @abstractmethod
    def address(self, listener: Listener[ByteStream]) -> tuple[str, int]:
        """Where ``listener`` can be reached."""


@attrs.frozen(kw_only=True)
class EdgeTerms:
    """What core gives a transport for one edge.

    ``edge`` is unique among all runs. An offer listens on ``host`` and ``port`` (0: a free one), and its ticket names
    ``advertised`` as the host to dial; where that is empty, the dialler takes its own ``peer_host``. ``prove`` must
    be the first use of a new connection on both sides, raises `HandshakeError` and takes ``dialer`` last.
    ``open_timeout`` bounds in seconds how long `open` waits for the peer, ``timeout`` how long a message that has
    begun may take.
    """

    edge: str
    host: str
    port: int = 0
    advertised: str = attrs.field(default=attrs.Factory(lambda self: self.host, takes_self=True))
    peer_host: str = ""
    prove: Callable[[Read, Write, bool], None]
    open_timeout: float = 60.0
    timeout: float = 60.0
    max_header: int = 1 << 20


class Edge(ABC):
    """One end of a one-way path for steps, between two stages. Blocking; one thread sends or receives.

    Ending is told apart: `EdgeClosed` by this side, `EdgeEnded` by the peer between messages, `EdgeBroken` inside
    one or by a rule, `EdgeTimeout`.
    """

    @abstractmethod
    def send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        """Send one message; returns when header and tensors may be reused.

        Raises `ValueError` for a tensor that isn't contiguous.
        """

    @abstractmethod
    def recv(self, place: Place) -> bytes:
        """Wait for a message without a deadline, fill what ``place(header)`` names, and return the header.

        The payload's length must equal the bytes of the destinations, else `EdgeBroken`; one that isn't contiguous is a
        `ValueError`; nothing is allocated by a length that the peer sent beyond ``terms.max_header``.
        """

    @abstractmethod
    def abort(self) -> None:
        """From any thread: make both ends' blocked calls raise at once. Safe to call twice, and after `close`."""

    @abstractmethod
    def close(self) -> None:
        """End the edge after what was sent. Safe to call twice."""


class Relay(ABC):
    """An edge between two processes that both dial this one, since neither can dial the other.

    Each ticket is for `EdgeTransport.open` of that role. What passes through is not looked at, and the relay holds no
    more of it than an end of an edge does, so a slow consumer still stops its producer.
    """

    producer_ticket: bytes
    consumer_ticket: bytes

    @abstractmethod
    def run(self) -> None:
        """Wait for both up to ``terms.open_timeout``, then pass on until one of them ends, which ends the other.

        The end of the producer comes after all that it sent. Blocking, in a thread of its own; returns when nothing
        is left to do. Raises `EdgeTimeout` when one doesn't come, and `EdgeClosed` after `close`.
        """

    @abstractmethod
    def close(self) -> None:
        """From any thread: end it, at both ends too. Safe to call twice."""


class EdgeTransport(ABC):
    """Edges of one process. One end offers, usually the consumer; the other dials with the ticket of that offer."""

    @abstractmethod
    def offer(self, terms: EdgeTerms, role: EdgeRole = "consumer") -> bytes:
        """As the edge's ``role``: be ready for the other one; returns the one-time ticket (≤ 1 KiB) that lets it in.

        Raises `AddressError` where ``terms`` name an address that can't be listened on, or that nobody can dial.
        """

    @abstractmethod
    def open(self, terms: EdgeTerms, ticket: bytes, role: EdgeRole, device: DeviceContext | None) -> Edge:
        """Open this side's end: who offered passes its own ticket and waits, the other dials, which waits for nobody.

        A ticket is used up by the first who proves the key. Raises `EdgeTimeout` when the peer doesn't come in time,
        `AddressError` when it can't be reached, `HandshakeError` when it isn't who it should be, and `EdgeClosed`
        after `close`.
        """

    @abstractmethod
    def withdraw(self, ticket: bytes) -> None:
        """Take an own offer back, if it is not open yet: nobody gets in with it, and its `open` raises `EdgeClosed`.

        From any thread.
        """

    def relay(self, producer: EdgeTerms, consumer: EdgeTerms) -> Relay:
        """Be ready for both ends of an edge, which may know this process by different addresses.

        Raises `PluginError` where the spec doesn't say ``relays``.
        """
        raise PluginError(f"edge {producer.edge}: this transport relays no edges; choose another with --transport")

    @abstractmethod
    def close(self) -> None:
        """Withdraw every offer, close every relay, make every waiting `open` raise, and free the listening port."""
