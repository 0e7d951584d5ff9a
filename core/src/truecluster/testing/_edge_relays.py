"""The rules of edges that a third process relays."""

from __future__ import annotations

import pytest

from truecluster.api import (
    AddressError,
    EdgeRole,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    PluginError,
    TransportSpec,
)

from ._edge_ends import PEER_GONE, EdgeGiven, Ends, nowhere
from .rules import refusal, require


class RelayRules(EdgeGiven):
    """Messages over relays are held to the rules of messages; here is what only a relay has."""

    @pytest.fixture
    def relaying(self, edges: EdgeTransport, spec: TransportSpec) -> EdgeTransport:
        """The transport, where it relays edges."""
        if not spec.relays:
            pytest.skip("it relays no edges")
        return edges

    def test_a_relay_that_is_not_offered_is_refused(self, edges: EdgeTransport, spec: TransportSpec) -> None:
        """Where the spec does not say ``relays``, ``relay`` raises `PluginError`."""
        if not spec.relays:
            with refusal(PluginError):
                edges.relay(self.terms(), self.terms())

    def test_a_relay_whose_ends_do_not_come_gives_up(self, relaying: EdgeTransport) -> None:
        """``run`` waits ``open_timeout`` seconds, raises `EdgeTimeout`, and its tickets let nobody in afterwards."""
        terms = self.terms(open_timeout=self.moment_s)
        relay = relaying.relay(terms, terms)
        with refusal(EdgeTimeout, open_timeout=self.moment_s):
            self.background("a relay's run", relay.run).result()
        tickets: list[tuple[bytes, EdgeRole]] = [
            (relay.producer_ticket, "producer"),
            (relay.consumer_ticket, "consumer"),
        ]
        for ticket, role in tickets:
            with refusal((AddressError, HandshakeError), role=role):
                self.open(relaying, self.terms(), ticket, role)

    def test_closing_a_relay_ends_it_for_all(self, relaying: EdgeTransport) -> None:
        """``close`` of a relay, which may be repeated, ends its ``run`` and both ends' calls."""
        terms = self.terms()
        relay = relaying.relay(terms, terms)
        running = self.background("a closed relay's run", relay.run)
        producer = self.open(relaying, terms, relay.producer_ticket, "producer")
        ends = Ends(producer, self.open(relaying, terms, relay.consumer_ticket, "consumer"))
        receiving = self.background("recv over a closed relay", lambda: ends.consumer.recv(nowhere))
        require(receiving.blocked(self.moment_s) and running.blocked(0), "a recv and a run that wait", "one has ended")
        for _ in range(2):
            relay.close()
        running.result()
        with refusal(PEER_GONE, of="recv"):
            receiving.result()
        with refusal(PEER_GONE, of="send"):
            self.gone(producer)
        self.end(ends)
