"""The contract of transports: of their streams, their edges, or both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
import torch

from truecluster._wire.handshake import prover as prover  # a plugin's own tests need it too
from truecluster.api import (
    AddressError,
    Edge,
    EdgeBroken,
    EdgeClosed,
    EdgeEnded,
    EdgeTerms,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    PluginError,
    TransportError,
    TransportSpec,
)

from ._edges import (
    Background,
    Opened,
    abort_twice,
    equal,
    flood,
    never,
    nowhere,
    open_edge,
    room_for,
    send_until_it_fails,
    tensors,
    to,
)
from ._streams import DEADLINE_S, MAX_BUFFERED, STALLED_S, StreamContract, TransportGiven

KEY = b"the key of the contract"
PEER_GONE = (EdgeEnded, EdgeBroken)


class EdgeContract(TransportGiven):
    """Give the fixtures ``transport`` and ``spec``. What arrives is compared with what was sent, kept aside."""

    @pytest.fixture
    def edges(self, transport: Any, spec: TransportSpec) -> EdgeTransport:
        """The transport, where it offers edges."""
        if not spec.edges:
            pytest.skip(f"{spec.name} offers no edges")
        assert isinstance(transport, EdgeTransport)
        return transport

    def terms(self, name: str = "run 1, edge 0", key: bytes = KEY, timeout: float = DEADLINE_S) -> EdgeTerms:
        """What core would ask for."""
        return EdgeTerms(
            edge=name, host=self.host, prove=prover(key), open_timeout=timeout, timeout=timeout, max_header=1000
        )

    @pytest.fixture(params=["direct", "reversed", "relayed"])
    def route(self, request: pytest.FixtureRequest, spec: TransportSpec) -> str:
        """The consumer offers, or the producer does, or both dial a relay."""
        route: str = request.param
        if route == "relayed" and not spec.relays:
            pytest.skip(f"{spec.name} relays no edges")
        return route

    @pytest.fixture
    def opened(self, edges: EdgeTransport, route: str) -> Opened:
        """Opens an edge by the route, to be used with ``with``: producer's and consumer's end."""

        @contextmanager
        def opened(timeout: float = DEADLINE_S) -> Iterator[tuple[Edge, Edge]]:
            terms = self.terms(timeout=timeout)
            with open_edge(edges, attrs.evolve(terms, open_timeout=DEADLINE_S), route) as ends:
                yield ends

        return opened

    def test_edges_that_are_not_offered_are_refused(self, transport: Any, spec: TransportSpec) -> None:
        """It isn't an `EdgeTransport`, or says `PluginError`."""
        if not spec.edges and isinstance(transport, EdgeTransport):
            with pytest.raises(PluginError):
                transport.offer(self.terms())
            with pytest.raises(PluginError):
                transport.open(self.terms(), b"", "producer", None)

    def test_tensors_arrive_bit_for_bit_where_place_says(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            destinations = room_for(tensors())
            producer.send(b"\x00header", tensors())
            received = consumer.recv(lambda header: destinations if header == b"\x00header" else [])
            assert received == b"\x00header"
            assert equal(destinations, tensors())

    def test_messages_keep_their_order_and_their_bounds(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            sending = Background(lambda: [producer.send(b"%d" % i, tensors(i)[: i % 4]) for i in range(200)])
            for i in range(200):
                destinations = room_for(tensors(i)[: i % 4])
                assert consumer.recv(to(destinations)) == b"%d" % i
                assert equal(destinations, tensors(i)[: i % 4])
            sending.result()

    def test_a_message_larger_than_any_buffer_arrives(self, opened: Opened) -> None:
        large = torch.randint(-100, 100, (3, 4 << 20), dtype=torch.int32)
        with opened() as (producer, consumer):
            sending = Background(lambda: producer.send(b"large", [large]))
            destination = torch.zeros_like(large)
            consumer.recv(to([destination]))
            sending.result()
            assert torch.equal(destination, large)

    def test_what_was_sent_may_be_overwritten_at_once(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            buffer, destination = torch.full((100,), 7.0), torch.zeros(100)
            producer.send(b"h", [buffer])
            buffer.fill_(9.0)
            consumer.recv(to([destination]))
            assert destination.eq(7.0).all()

    def test_a_producer_waits_for_a_consumer_that_does_not_receive(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            sent: list[int] = []
            sending = Background(lambda: flood(producer, sent))
            before = -1
            while before < len(sent) <= MAX_BUFFERED >> 20:
                before = len(sent)
                time.sleep(STALLED_S)
            assert len(sent) <= MAX_BUFFERED >> 20, f"{len(sent)} MiB were taken while nobody received"
            destination = torch.zeros(1 << 18)
            for i in range(before):
                assert consumer.recv(to([destination])) == b"%d" % i
            consumer.close()
            with pytest.raises(PEER_GONE):
                sending.result()

    def test_the_end_comes_after_what_was_sent(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            producer.send(b"last", [torch.arange(4.0)])
            producer.close()
            destination = torch.zeros(4)
            assert consumer.recv(to([destination])) == b"last"
            assert destination.tolist() == [0.0, 1.0, 2.0, 3.0]
            with pytest.raises(EdgeEnded):
                consumer.recv(nowhere)

    def test_a_producer_learns_that_its_consumer_is_gone(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            consumer.close()
            with pytest.raises(PEER_GONE):
                send_until_it_fails(producer)

    def test_closed_by_this_side_is_told_apart(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            for edge in (producer, consumer):
                edge.close()
                edge.close()
                edge.abort()
            with pytest.raises(EdgeClosed):
                producer.send(b"h", [])
            with pytest.raises(EdgeClosed):
                consumer.recv(nowhere)

    @pytest.mark.parametrize("role", ["producer", "consumer"])
    def test_an_abort_wakes_a_blocked_consumer(self, opened: Opened, role: str) -> None:
        with opened() as (producer, consumer):
            receiving = Background(lambda: consumer.recv(nowhere))
            assert receiving.blocked()
            abort_twice(producer if role == "producer" else consumer)
            with pytest.raises(EdgeClosed if role == "consumer" else PEER_GONE):
                receiving.result()

    @pytest.mark.parametrize("role", ["producer", "consumer"])
    def test_an_abort_wakes_a_blocked_producer(self, opened: Opened, role: str) -> None:
        with opened() as (producer, consumer):
            sending = Background(lambda: flood(producer, []))
            assert sending.blocked()
            abort_twice(producer if role == "producer" else consumer)
            with pytest.raises(EdgeClosed if role == "producer" else PEER_GONE):
                sending.result()

    def test_a_message_that_has_begun_has_a_deadline(self, opened: Opened) -> None:
        with opened(timeout=0.3) as (producer, _), pytest.raises(EdgeTimeout):
            flood(producer, [])

    def test_the_wait_for_a_message_has_no_deadline(self, opened: Opened) -> None:
        with opened(timeout=0.1) as (producer, consumer):
            receiving = Background(lambda: consumer.recv(nowhere))
            assert receiving.blocked()
            producer.send(b"late", [])
            assert receiving.result() == b"late"

    @pytest.mark.parametrize("size", [0, 3, 5])
    def test_a_payload_of_another_size_breaks_it_for_both(self, opened: Opened, size: int) -> None:
        with opened() as (producer, consumer):
            producer.send(b"h", [torch.zeros(4)])
            with pytest.raises(EdgeBroken):
                consumer.recv(to([torch.zeros(size)]))
            with pytest.raises(EdgeBroken):
                consumer.recv(nowhere)
            with pytest.raises(PEER_GONE):
                send_until_it_fails(producer)

    def test_a_header_that_core_refuses_breaks_it_for_both(self, opened: Opened) -> None:
        def refuse(header: bytes) -> list[torch.Tensor]:
            raise EdgeBroken("not this one")

        with opened() as (producer, consumer):
            producer.send(b"h", [torch.zeros(4)])
            with pytest.raises(EdgeBroken, match="not this one"):
                consumer.recv(refuse)
            with pytest.raises(EdgeBroken):
                consumer.recv(nowhere)
            with pytest.raises(PEER_GONE):
                send_until_it_fails(producer)

    def test_a_header_over_the_limit_never_reaches_core(self, opened: Opened) -> None:
        with opened() as (producer, consumer):
            producer.send(bytes(1000), [])
            assert consumer.recv(nowhere) == bytes(1000)
            producer.send(bytes(1001), [])
            with pytest.raises(EdgeBroken):
                consumer.recv(never)

    def test_a_ticket_lets_one_producer_in(self, edges: EdgeTransport) -> None:
        terms = self.terms()
        ticket = edges.offer(terms)
        producer = edges.open(terms, ticket, "producer", None)
        with pytest.raises(HandshakeError):
            edges.open(terms, ticket, "producer", None)
        consumer = edges.open(terms, ticket, "consumer", None)
        producer.send(b"mine", [])
        assert consumer.recv(nowhere) == b"mine"
        for edge in (producer, consumer):
            edge.close()
        with pytest.raises(TransportError):
            edges.open(self.terms(timeout=1.0), ticket, "producer", None)

    def test_a_wrong_key_is_refused_and_uses_nothing_up(self, edges: EdgeTransport) -> None:
        terms = self.terms()
        ticket = edges.offer(terms)
        with pytest.raises(HandshakeError):
            edges.open(self.terms(key=b"another"), ticket, "producer", None)
        producer = edges.open(terms, ticket, "producer", None)
        consumer = edges.open(terms, ticket, "consumer", None)
        producer.send(b"right", [])
        assert consumer.recv(nowhere) == b"right"
        producer.close()
        consumer.close()

    @pytest.mark.parametrize("role", ["producer", "consumer"])
    @pytest.mark.parametrize("ticket", [b"", b"x", bytes(40), b"\xff" * 1024], ids=len)
    def test_what_is_no_ticket_is_refused(self, edges: EdgeTransport, role: Any, ticket: bytes) -> None:
        edges.offer(self.terms())
        with pytest.raises(HandshakeError):
            edges.open(self.terms(), ticket, role, None)

    def test_edges_do_not_mix(self, edges: EdgeTransport) -> None:
        terms = [self.terms(f"edge {i}") for i in range(3)]
        tickets = [edges.offer(each) for each in terms]
        assert len(set(tickets)) == 3
        assert all(len(ticket) <= 1024 for ticket in tickets)
        producers = [edges.open(terms[i], tickets[i], "producer", None) for i in (2, 0, 1)]
        consumers = [edges.open(terms[i], tickets[i], "consumer", None) for i in (1, 2, 0)]
        for i, producer in zip((2, 0, 1), producers, strict=True):
            producer.send(b"%d" % i, [])
        assert [consumer.recv(nowhere) for consumer in consumers] == [b"1", b"2", b"0"]
        for edge in (*producers, *consumers):
            edge.close()

    def test_a_producer_that_does_not_come_is_waited_for_in_vain(self, edges: EdgeTransport) -> None:
        terms = self.terms(timeout=0.1)
        ticket = edges.offer(terms)
        with pytest.raises(EdgeTimeout):
            edges.open(terms, ticket, "consumer", None)
        with pytest.raises((AddressError, HandshakeError)):
            edges.open(self.terms(), ticket, "producer", None)

    def test_an_offer_that_is_taken_back_lets_nobody_in(self, edges: EdgeTransport) -> None:
        terms = self.terms()
        ticket, other = edges.offer(terms), edges.offer(self.terms("another"))
        waiting = Background(lambda: edges.open(terms, ticket, "consumer", None))
        assert waiting.blocked()
        edges.withdraw(ticket)
        edges.withdraw(ticket)
        with pytest.raises(EdgeClosed):
            waiting.result()
        with pytest.raises(HandshakeError):
            edges.open(terms, ticket, "producer", None)
        edges.open(terms, other, "producer", None).close()

    def test_a_relay_that_is_not_offered_is_refused(self, edges: EdgeTransport, spec: TransportSpec) -> None:
        if not spec.relays:
            with pytest.raises(PluginError):
                edges.relay(self.terms(), self.terms())

    def test_a_relay_whose_ends_do_not_come_gives_up(self, edges: EdgeTransport, spec: TransportSpec) -> None:
        if not spec.relays:
            pytest.skip(f"{spec.name} relays no edges")
        terms = self.terms(timeout=0.1)
        relay = edges.relay(terms, terms)
        with pytest.raises(EdgeTimeout):
            relay.run()
        for ticket, role in ((relay.producer_ticket, "producer"), (relay.consumer_ticket, "consumer")):
            with pytest.raises((AddressError, HandshakeError)):
                edges.open(self.terms(), ticket, role, None)  # type: ignore[arg-type]

    def test_closing_a_relay_ends_it_for_all(self, edges: EdgeTransport, spec: TransportSpec) -> None:
        if not spec.relays:
            pytest.skip(f"{spec.name} relays no edges")
        relay = edges.relay(self.terms(), self.terms())
        running = Background(relay.run)
        producer = edges.open(self.terms(), relay.producer_ticket, "producer", None)
        assert running.blocked()
        consumer = edges.open(self.terms(), relay.consumer_ticket, "consumer", None)
        receiving = Background(lambda: consumer.recv(nowhere))
        assert receiving.blocked()
        relay.close()
        relay.close()
        running.result()
        with pytest.raises(PEER_GONE):
            receiving.result()
        with pytest.raises(PEER_GONE):
            send_until_it_fails(producer)
        for edge in (producer, consumer):
            edge.close()

    def test_closing_wakes_who_waits_and_withdraws_every_offer(self, edges: EdgeTransport) -> None:
        terms = self.terms()
        ticket, other = edges.offer(terms), edges.offer(self.terms("another"))
        waiting = Background(lambda: edges.open(terms, ticket, "consumer", None))
        assert waiting.blocked()
        edges.close()
        edges.close()
        with pytest.raises(EdgeClosed):
            waiting.result()
        with pytest.raises(TransportError):
            edges.open(terms, other, "producer", None)
        with pytest.raises(EdgeClosed):
            edges.offer(terms)


class TransportContract(StreamContract, EdgeContract):
    """Both contracts; what the spec doesn't offer is skipped, and must be refused."""
