"""The rules of how an edge ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import attrs
import pytest
import torch

from truecluster.api import (
    Edge,
    EdgeBroken,
    EdgeClosed,
    EdgeEnded,
    EdgeTerms,
    EdgeTimeout,
    EdgeTransport,
    TransportSpec,
)

from ._edge_ends import KEY, PEER_GONE, EdgeGiven, Ends, Message, Opened, nowhere
from .rules import refusal, require

By = Literal["own", "peer"]


class EndingRules(EdgeGiven):
    """Closed by this side, ended by the peer, broken, out of time."""

    def test_the_end_comes_after_what_was_sent(self, opened: Opened) -> None:
        """``close`` ends an edge after what was sent: the consumer gets all of it, then `EdgeEnded`."""
        messages = [Message(b"%d" % i, [torch.full((1000,), i)]) for i in range(5)]
        with opened() as ends:
            self.send(ends, *messages).result()
            self.background("close", ends.producer.close).result()
            self.receive(ends, *messages)
            with refusal(EdgeEnded):
                self.background("recv", lambda: ends.consumer.recv(nowhere)).result()

    def test_a_producer_learns_that_its_consumer_is_gone(self, opened: Opened) -> None:
        """``send`` raises `EdgeEnded` or `EdgeBroken` soon after the consumer has closed the edge."""
        with opened() as ends:
            self.background("close", ends.consumer.close).result()
            with refusal(PEER_GONE):
                self.gone(ends.producer)

    def test_closed_by_this_side_is_told_apart(self, opened: Opened) -> None:
        """After its own ``close``, which may be repeated, an end raises `EdgeClosed`."""
        with opened() as ends:
            for edge in (ends.producer, ends.consumer):
                for what in (edge.close, edge.close, edge.abort):
                    self.background("close", what).result()
            with refusal(EdgeClosed, of="send"):
                self.send(ends, Message(b"h")).result()
            with refusal(EdgeClosed, of="recv"):
                self.background("recv", lambda: ends.consumer.recv(nowhere)).result()

    @pytest.mark.parametrize("by", ["own", "peer"])
    def test_an_abort_wakes_a_blocked_consumer(self, opened: Opened, by: By) -> None:
        """``abort`` from another thread, at either end and twice, ends a ``recv`` that waits, and says by whom."""
        with opened() as ends:
            receiving = self.background("the aborted recv", lambda: ends.consumer.recv(nowhere))
            require(receiving.blocked(self.moment_s), "a recv that waits", "it ended")
            for _ in range(2):
                self.background("abort", (ends.consumer if by == "own" else ends.producer).abort).result()
            with refusal(EdgeClosed if by == "own" else PEER_GONE, aborted_by=by):
                receiving.result()

    @pytest.mark.parametrize("by", ["own", "peer"])
    def test_an_abort_wakes_a_blocked_producer(self, opened: Opened, by: By) -> None:
        """``abort`` from another thread, at either end and twice, ends a ``send`` that waits, and says by whom."""
        with opened(timeout=10 * self.patience_s) as ends:
            sending = self.flood(ends, [])
            require(sending.blocked(3 * self.moment_s), "a send that waits", "it ended")
            for _ in range(2):
                self.background("abort", (ends.producer if by == "own" else ends.consumer).abort).result()
            with refusal(EdgeClosed if by == "own" else PEER_GONE, aborted_by=by):
                sending.result()

    def test_a_message_that_its_producer_leaves_incomplete_is_given_up(
        self, edges: EdgeTransport, spec: TransportSpec
    ) -> None:
        """``recv`` raises `EdgeTimeout` where a producer stops inside a message, `EdgeBroken` where it dies."""
        patient = self.terms(open_timeout=self.start_s)
        hasty = attrs.evolve(patient, timeout=5 * self.moment_s)
        with self.far_producer(edges, spec, hasty, patient) as (process, consumers):
            with refusal(EdgeTimeout, process="stopped", timeout=hasty.timeout):
                self.receive_until(lambda: process.send_signal(signal.SIGSTOP), next(consumers))
            process.send_signal(signal.SIGCONT)
            with refusal(EdgeBroken, process="killed"):
                self.receive_until(process.kill, next(consumers))

    @contextmanager
    def far_producer(
        self, edges: EdgeTransport, spec: TransportSpec, *terms: EdgeTerms
    ) -> Iterator[tuple[subprocess.Popen[str], Iterator[Edge]]]:
        """A process that sends one large message on an edge after the other, and their consumers' ends here."""
        tickets = [edges.offer(each) for each in terms]
        told = {"edge": terms[0].edge, "host": self.host, "key": KEY.hex(), "size": self.far_bytes}
        with self.far(spec, role="produce", tickets=[ticket.hex() for ticket in tickets], **told) as process:
            yield process, (self.opened_by(process, edges, *each) for each in zip(terms, tickets, strict=True))

    def opened_by(self, process: subprocess.Popen[str], edges: EdgeTransport, terms: EdgeTerms, ticket: bytes) -> Edge:
        """The consumer's end of an edge whose producer is ``process``, which takes its time to start."""
        what = "open as consumer"
        opening = self.background(what, lambda: edges.open(terms, ticket, "consumer", None), self.start_s)
        while opening.blocked(self.moment_s):
            self.alive(process)
        return opening.result()

    def receive_until(self, interrupt: Callable[[], object], consumer: Edge) -> None:
        """Receive a message; ``interrupt`` comes when its header is here and the rest is still to be sent."""

        def place(header: bytes) -> list[torch.Tensor]:
            interrupt()
            return [torch.empty(self.far_bytes, dtype=torch.uint8)]

        try:
            self.background("recv", lambda: consumer.recv(place)).result()
        finally:
            self.end(Ends(consumer, consumer))

    @property
    def far_bytes(self) -> int:
        """More than can lie on the way."""
        return max(2 * self.most_buffered, 32 << 20)
