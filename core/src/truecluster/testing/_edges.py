"""What the contract of edges sends, waits for and compares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Generic, TypeVar

import torch

from truecluster.api import Edge, EdgeRole, EdgeTerms, EdgeTransport, Place, TransportError

from ._streams import DEADLINE_S, MAX_BUFFERED, STALLED_S

T = TypeVar("T")
Opened = Callable[..., "AbstractContextManager[tuple[Edge, Edge]]"]


class Background(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> T:
        """What the call returned or raised; it must have by now, or soon."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a call that should have been woken is still blocked"
        if self._error is not None:
            raise self._error
        return self._result[0]

    def blocked(self) -> bool:
        """Whether it still waits after a moment."""
        self._thread.join(STALLED_S)
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error


@contextmanager
def open_edge(edges: EdgeTransport, terms: EdgeTerms, route: str) -> Iterator[tuple[Edge, Edge]]:
    """Producer's and consumer's end; an end that dials is there before the other asks for its own."""
    with ExitStack() as stack:
        if route == "relayed":
            relay = edges.relay(terms, terms)
            running = Background(relay.run)
            stack.callback(_finished, running)
            stack.callback(relay.close)
            order: list[tuple[EdgeRole, bytes]]
            order = [("producer", relay.producer_ticket), ("consumer", relay.consumer_ticket)]
        elif route == "reversed":
            ticket = edges.offer(terms, "producer")
            order = [("consumer", ticket), ("producer", ticket)]
        else:
            ticket = edges.offer(terms)
            order = [("producer", ticket), ("consumer", ticket)]
        ends = {role: edges.open(terms, ticket, role, None) for role, ticket in order}
        for end in ends.values():
            stack.callback(end.close)
        yield ends["producer"], ends["consumer"]


def _finished(running: Background[None]) -> None:
    """A relay's thread is gone once it is closed; how it ended is not asked."""
    with suppress(TransportError):
        running.result()


def tensors(seed: int = 0) -> list[torch.Tensor]:
    """Every dtype that crosses an edge, one tensor without elements, one without dimensions."""
    made = torch.Generator().manual_seed(seed)
    hidden = torch.randn(3, 896, generator=made)
    ids = torch.randint(-(2**31), 2**31 - 1, (5,), generator=made, dtype=torch.int32)
    halves = [hidden.to(torch.bfloat16), hidden.to(torch.float16)]
    return [hidden, *halves, ids, ids.view(torch.uint8), torch.empty(0, 896), torch.tensor(seed + 0.5)]


def room_for(sent: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Destinations that hold something else."""
    return [torch.ones_like(tensor) for tensor in sent]


def equal(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether all bits are."""
    return all(
        x.shape == y.shape and torch.equal(x.view(-1).view(torch.uint8), y.view(-1).view(torch.uint8))
        for x, y in zip(a, b, strict=True)
    )


def nowhere(header: bytes) -> list[torch.Tensor]:
    """The place of a message without tensors."""
    return []


def to(destinations: Sequence[torch.Tensor]) -> Place:
    """The place of any message."""
    return lambda header: destinations


def never(header: bytes) -> Sequence[torch.Tensor]:
    """The place of a message that mustn't get that far."""
    raise AssertionError(f"a header of {len(header)} bytes reached core")


def flood(producer: Edge, sent: list[int]) -> None:
    """Send numbered messages of 1 MiB for as long as somebody takes them, at most twice what may be buffered."""
    for i in range(2 * MAX_BUFFERED >> 20):
        producer.send(b"%d" % i, [torch.zeros(1 << 18)])
        sent.append(i)


def send_until_it_fails(producer: Edge) -> None:
    """The end of the peer may take a moment to be known."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        producer.send(b"h", [torch.zeros(4)])
        time.sleep(0.01)


def abort_twice(edge: Edge) -> None:
    """From another thread."""
    for _ in range(2):
        Background(edge.abort).result()
