"""The rules of how edges are opened: tickets, the proof of the key, offers that end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecluster._wire.handshake import prover
from truecluster.api import (
    AddressError,
    EdgeClosed,
    EdgeRole,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    PluginError,
    TransportError,
    TransportSpec,
)

from ._edge_ends import FOREIGN, GREETING, EdgeGiven, Ends, Message, Prove, saying, silent_after
from ._patience import held, held_at_last
from .rules import ranging, refusal, require

STRANGERS: dict[str, tuple[Prove, type[Exception]]] = {
    "another key": (prover(b"another"), HandshakeError),
    "no proof": (saying(b""), TransportError),
    "garbage": (saying(b"GET / HTTP/1.1\r\n\r\n" * 4, 1), TransportError),
    "half a greeting": (saying(GREETING[:20]), TransportError),
    "another protocol": (saying(FOREIGN, len(FOREIGN)), TransportError),
    "a greeting for a proof": (saying(GREETING + bytes(32), len(GREETING) + 32), TransportError),
}
SILENT = {"says nothing": silent_after(b""), "half a greeting": silent_after(GREETING[:20])}


class OpeningRules(EdgeGiven):
    """Who gets in, and how long anybody waits."""

    def test_edges_that_are_not_offered_are_refused(self, transport: Any, spec: TransportSpec) -> None:
        """Where the spec offers no edges, the target is no `EdgeTransport`, or both calls raise `PluginError`."""
        if not spec.edges and isinstance(transport, EdgeTransport):
            with refusal(PluginError, of="offer"):
                transport.offer(self.terms())
            with refusal(PluginError, of="open"):
                transport.open(self.terms(), b"", "producer", None)

    def test_a_ticket_lets_one_in(self, edges: EdgeTransport) -> None:
        """A ticket lets in the first who proves the key, and nobody after."""
        terms = self.terms()
        ticket = edges.offer(terms)
        producer = self.open(edges, terms, ticket, "producer")
        with refusal(HandshakeError, while_="its edge is not open yet"):
            self.open(edges, terms, ticket, "producer")
        self.works(Ends(producer, self.open(edges, terms, ticket, "consumer")))
        with refusal(TransportError, while_="its edge has ended"):
            self.open(edges, terms, ticket, "producer")

    @pytest.mark.parametrize("stranger", STRANGERS)
    def test_who_does_not_prove_the_key_uses_nothing_up(self, edges: EdgeTransport, stranger: str) -> None:
        """Who does not prove the key is refused, and the ticket still lets the right one in."""
        terms = self.terms()
        ticket = edges.offer(terms)
        prove, error = STRANGERS[stranger]
        with refusal(error, stranger=stranger):
            self.open(edges, self.terms(prove=prove), ticket, "producer")
        self.works(self.open_both(edges, terms, ticket))

    @pytest.mark.parametrize("stranger", SILENT)
    def test_silent_strangers_leave_room(self, edges: EdgeTransport, stranger: str) -> None:
        """While strangers fall silent in their handshakes, the right one gets in."""
        terms = self.terms()
        ticket = edges.offer(terms)
        deaf = self.terms(prove=SILENT[stranger])
        waiting = [self.background("open", lambda: edges.open(deaf, ticket, "producer", None)) for _ in range(3)]
        require(all(each.blocked(self.moment_s) for each in waiting), "strangers who wait for an answer", "they ended")
        self.works(self.open_both(edges, terms, ticket))
        self.close(edges)
        for each in waiting:
            with refusal(TransportError, stranger=stranger):
                each.result()

    @pytest.mark.parametrize("peer", SILENT)
    def test_a_peer_that_falls_silent_is_given_up(self, edges: EdgeTransport, peer: str) -> None:
        """Who dials raises `EdgeTimeout` where the handshake is not over within ``open_timeout`` seconds."""
        ticket = edges.offer(self.terms(prove=SILENT[peer]))
        with refusal(EdgeTimeout, open_timeout=3 * self.moment_s, peer=peer):
            self.open(edges, self.terms(open_timeout=3 * self.moment_s), ticket, "producer")

    @ranging
    @given(ticket=st.binary(max_size=1024), role=st.sampled_from(["producer", "consumer"]))
    def test_what_is_no_ticket_is_refused(self, edges: EdgeTransport, ticket: bytes, role: EdgeRole) -> None:
        """Bytes that are no ticket are refused with `HandshakeError`, whatever they are."""
        with refusal(HandshakeError, ticket=ticket, role=role):
            self.open(edges, self.terms(), ticket, role)

    def test_a_ticket_is_small_and_like_no_other(self, edges: EdgeTransport) -> None:
        """A ticket has at most 1024 bytes, and no two are equal."""
        tickets = [edges.offer(self.terms(f"edge {i}")) for i in range(20)]
        longest = max(map(len, tickets))
        require(longest <= 1024, "at most 1024 bytes", f"{longest} bytes")
        require(len(set(tickets)) == 20, "20 tickets of 20 offers", f"{len(set(tickets))} different ones")

    def test_edges_do_not_mix(self, edges: EdgeTransport) -> None:
        """Several edges at once carry each its own messages, in whatever order they are opened."""
        terms = [self.terms(f"edge {i}") for i in range(3)]
        tickets = [edges.offer(each) for each in terms]
        producers = {i: self.open(edges, terms[i], tickets[i], "producer") for i in (2, 0, 1)}
        consumers = {i: self.open(edges, terms[i], tickets[i], "consumer") for i in (1, 2, 0)}
        ends = [Ends(producers[i], consumers[i]) for i in range(3)]
        for i, each in enumerate(ends):
            self.send(each, Message(b"%d" % i)).result()
        for i, each in enumerate(ends):
            self.receive(each, Message(b"%d" % i))
        self.end(*ends)

    def test_a_peer_that_does_not_come_is_waited_for_in_vain(self, edges: EdgeTransport) -> None:
        """Who offers waits ``open_timeout`` seconds, raises `EdgeTimeout`, and the ticket lets nobody in afterwards."""
        terms = self.terms(open_timeout=self.moment_s)
        ticket = edges.offer(terms)
        with refusal(EdgeTimeout, open_timeout=self.moment_s):
            self.open(edges, terms, ticket, "consumer")
        with refusal((AddressError, HandshakeError), ticket="of an offer that has been given up"):
            self.open(edges, self.terms(), ticket, "producer")

    def test_an_offer_that_is_taken_back_lets_nobody_in(self, edges: EdgeTransport) -> None:
        """``withdraw``, which may be repeated, ends its own ``open`` with `EdgeClosed`; nobody gets in, others do."""
        terms = self.terms()
        ticket, other = edges.offer(terms), edges.offer(self.terms("another"))
        waiting = self.background("the withdrawn open", lambda: edges.open(terms, ticket, "consumer", None))
        require(waiting.blocked(self.moment_s), "an open that waits", "it ended")
        for _ in range(2):
            edges.withdraw(ticket)
        with refusal(EdgeClosed):
            waiting.result()
        with refusal(HandshakeError, ticket="withdrawn"):
            self.open(edges, terms, ticket, "producer")
        self.works(self.open_both(edges, terms, other))

    @pytest.mark.parametrize("port", [-1, 65536])
    def test_an_offer_on_a_port_that_does_not_exist_is_refused(self, edges: EdgeTransport, port: int) -> None:
        """``offer`` on a port below 0 or above 65535 raises an `AddressError` that names it."""
        with refusal(AddressError, str(port), port=port):
            edges.offer(self.terms(port=port))

    def test_closing_wakes_who_waits_and_withdraws_every_offer(self, edges: EdgeTransport) -> None:
        """``close``, which may be repeated, ends an ``open`` that waits with `EdgeClosed` and every offer with it."""
        terms = self.terms()
        ticket, other = edges.offer(terms), edges.offer(self.terms("another"))
        waiting = self.background("the open of a closed transport", lambda: edges.open(terms, ticket, "consumer", None))
        require(waiting.blocked(self.moment_s), "an open that waits", "it ended")
        for _ in range(2):
            self.background("close", edges.close).result()
        with refusal(EdgeClosed, of="the open that waited"):
            waiting.result()
        with refusal(TransportError, of="an open with a ticket from before"):
            self.open(edges, terms, other, "producer")
        with refusal(EdgeClosed, of="an offer afterwards"):
            edges.offer(terms)

    def test_closing_ends_a_dial(self, edges: EdgeTransport) -> None:
        """``close`` from another thread ends an ``open`` that dials and waits for its peer with `EdgeClosed`."""
        ticket = edges.offer(self.terms(prove=silent_after(b"")))
        terms = self.terms(open_timeout=10 * self.patience_s)
        dialling = self.background("the dial", lambda: edges.open(terms, ticket, "producer", None))
        require(dialling.blocked(self.moment_s), "a dial that waits", "it ended")
        self.background("close", edges.close).result()
        with refusal(EdgeClosed):
            dialling.result()

    def test_closing_leaves_nothing_open(self, edges: EdgeTransport) -> None:
        """After ``close`` no descriptor and no thread is left of edges, offers and strangers."""
        before = held()
        terms = self.terms()
        self.works(self.open_both(edges, terms, edges.offer(terms)))
        ticket = edges.offer(terms)
        deaf = self.terms(prove=silent_after(b""), open_timeout=self.patience_s / 2)
        stranger = self.background("a stranger's open", lambda: edges.open(deaf, ticket, "producer", None))
        stranger.blocked(self.moment_s)
        self.background("close", edges.close).result()
        after = held_at_last(before, self.patience_s)
        require(after.within(before), str(before), str(after))
