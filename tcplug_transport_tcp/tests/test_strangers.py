"""Who dials an edge's port without being asked to, and what is wrong with addresses."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import anyio
import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tcplug_transport_tcp.doorway import Doorway
from tcplug_transport_tcp.sockets import bind, local_address, shown
from tcplug_transport_tcp.tickets import Ticket, decode
from tcplug_transport_tcp.transport import TcpTransport

from truecluster.api import AddressError, EdgeBroken, EdgeClosed, EdgeEnded, EdgeTerms, EdgeTimeout, HandshakeError
from truecluster.testing.transport import prover

TERMS = EdgeTerms(edge="e", host="127.0.0.1", prove=prover(b"k"), timeout=10.0)


@pytest.fixture
def transport() -> Iterator[TcpTransport]:
    transport = TcpTransport()
    yield transport
    transport.close()


def _address(ticket: bytes) -> tuple[str, int]:
    return decode(ticket).host, decode(ticket).port


def _opens(transport: TcpTransport, ticket: bytes) -> None:
    """The right producer gets in, and its message through."""
    producer = transport.open(TERMS, ticket, "producer", None)
    consumer = transport.open(TERMS, ticket, "consumer", None)
    producer.send(b"hello", [torch.ones(3)])
    there = torch.zeros(3)
    assert consumer.recv(lambda header: [there]) == b"hello"
    assert there.tolist() == [1.0, 1.0, 1.0]
    producer.close()
    consumer.close()


@pytest.mark.parametrize("garbage", [b"", b"\x00", b"GET / HTTP/1.1\r\n\r\n", bytes(10_000), b"\x89TrueCl\n"], ids=len)
def test_garbage_disturbs_nobody(transport: TcpTransport, garbage: bytes) -> None:
    ticket = transport.offer(TERMS)
    with socket.create_connection(_address(ticket)) as stranger:
        stranger.sendall(garbage)
        _opens(transport, ticket)


def test_silent_strangers_leave_room_for_the_right_one(transport: TcpTransport) -> None:
    ticket = transport.offer(TERMS)
    strangers = [socket.create_connection(_address(ticket)) for _ in range(10)]
    _opens(transport, ticket)
    for stranger in strangers:
        stranger.close()


def test_of_more_silent_strangers_than_there_is_room_the_oldest_go(transport: TcpTransport) -> None:
    ticket = transport.offer(TERMS)
    strangers = [socket.create_connection(_address(ticket)) for _ in range(40)]
    _opens(transport, ticket)
    for stranger in strangers:
        stranger.close()


def test_who_proves_the_key_but_shows_another_secret_is_turned_away(transport: TcpTransport) -> None:
    ticket = transport.offer(TERMS)
    forged = attrs.evolve(decode(ticket), secret=bytes(32)).encode()
    with pytest.raises(HandshakeError, match="ticket"):
        transport.open(TERMS, forged, "producer", None)
    _opens(transport, ticket)


def test_a_listener_that_never_answers_meets_the_deadline(transport: TcpTransport) -> None:
    with bind("127.0.0.1", 0) as deaf:
        ticket = Ticket("consumer", "127.0.0.1", deaf.getsockname()[1], bytes(32)).encode()
        terms = attrs.evolve(TERMS, open_timeout=0.1)
        with pytest.raises(EdgeTimeout, match="edge e"):
            transport.open(terms, ticket, "producer", None)


def test_closing_wakes_a_producer_that_dials(transport: TcpTransport) -> None:
    with bind("127.0.0.1", 0) as deaf:
        ticket = Ticket("consumer", "127.0.0.1", deaf.getsockname()[1], bytes(32)).encode()
        threading.Timer(0.1, transport.close).start()
        start = time.monotonic()
        with pytest.raises(EdgeClosed):
            transport.open(TERMS, ticket, "producer", None)
        assert time.monotonic() - start < 5


def test_close_frees_the_port_and_ends_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Semaphore.release

    def late(slots: threading.Semaphore) -> None:  # what a thread does last, on a machine that lets it wait
        time.sleep(0.1)
        release(slots)

    monkeypatch.setattr(threading.Semaphore, "release", late)
    before = set(threading.enumerate())  # such as those of transports that others have left to themselves
    transport = TcpTransport()
    _, port = _address(transport.offer(TERMS))
    with socket.create_connection(("127.0.0.1", port)):
        transport.close()
        assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("tcp-edge")]
        bind("127.0.0.1", port).close()


@pytest.mark.parametrize("sent", [struct.pack(">IQ", 2**32 - 1, 0), struct.pack(">IQ", (1 << 20) + 1, 0)])
def test_a_hostile_header_length_is_refused(transport: TcpTransport, sent: bytes) -> None:
    with pytest.raises(EdgeBroken, match="header of"):
        _receive_raw(transport, sent)


@pytest.mark.parametrize("payload", [0, 11, 13, 2**63, 2**64 - 1])
def test_a_hostile_payload_length_is_refused(transport: TcpTransport, payload: int) -> None:
    with pytest.raises(EdgeBroken, match=f"payload of {payload} bytes where 12"):
        _receive_raw(transport, struct.pack(">IQ", 1, payload) + b"h")


@pytest.mark.parametrize("size", [1, 12, 13, 24])
def test_an_end_inside_a_message_is_not_an_end(transport: TcpTransport, size: int) -> None:
    with pytest.raises(EdgeBroken, match="inside a message"):
        _receive_raw(transport, (struct.pack(">IQ", 1, 12) + b"h" + bytes(12))[:size])


def _receive_raw(transport: TcpTransport, data: bytes) -> None:
    """Receive three floats from a producer that has the key and sends ``data``."""
    ticket = transport.offer(TERMS)
    with socket.create_connection(_address(ticket)) as sock:
        prover(b"k")(lambda n: sock.recv(n, socket.MSG_WAITALL), sock.sendall, True)
        sock.sendall(decode(ticket).secret)
        assert sock.recv(1) == b"\x01"
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        consumer = transport.open(TERMS, ticket, "consumer", None)
        try:
            consumer.recv(lambda header: [torch.zeros(3)])
        finally:
            consumer.close()


def test_a_slow_message_meets_the_deadline(transport: TcpTransport) -> None:
    terms = EdgeTerms(edge="e", host="127.0.0.1", prove=prover(b"k"), timeout=0.2)
    ticket = transport.offer(terms)
    with socket.create_connection(_address(ticket)) as sock:
        prover(b"k")(lambda n: sock.recv(n, socket.MSG_WAITALL), sock.sendall, True)
        sock.sendall(decode(ticket).secret + b"\x00")
        consumer = transport.open(terms, ticket, "consumer", None)
        with pytest.raises(EdgeTimeout, match="edge e"):
            consumer.recv(lambda header: [])
        consumer.close()


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        transport = TcpTransport()
        with pytest.raises(AddressError, match=f"127.0.0.1:{port}.*another port"):
            transport.offer(attrs.evolve(TERMS, port=port))
        transport.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_nobody_can_dial_every_address(transport: TcpTransport, host: str) -> None:
    with pytest.raises(AddressError, match=r"nobody can dial .*--advertise-host"):
        transport.offer(attrs.evolve(TERMS, host=host, advertised=host))


def test_the_advertised_host_is_what_is_dialled(transport: TcpTransport) -> None:
    terms = attrs.evolve(TERMS, host="0.0.0.0", advertised="127.0.0.1")
    ticket = transport.offer(terms)
    assert decode(ticket).host == "127.0.0.1"
    _opens(transport, ticket)


def test_a_ticket_without_a_host_leads_to_where_the_dialler_knows_its_peer(transport: TcpTransport) -> None:
    ticket = transport.offer(attrs.evolve(TERMS, advertised=""))
    with pytest.raises(AddressError, match="names no host"):
        transport.open(TERMS, ticket, "producer", None)
    producer = transport.open(attrs.evolve(TERMS, peer_host="localhost"), ticket, "producer", None)
    consumer = transport.open(TERMS, ticket, "consumer", None)
    producer.send(b"hello", [])
    assert consumer.recv(lambda header: []) == b"hello"
    producer.close()
    consumer.close()


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1.1", "x" * 300])
def test_a_host_without_an_address_is_named(transport: TcpTransport, host: str) -> None:
    with pytest.raises(AddressError):
        anyio.run(transport.listen, host, 0)
    with pytest.raises(AddressError):
        anyio.run(transport.connect, host, 1)


def test_an_address_of_another_machine_is_named(transport: TcpTransport) -> None:
    with pytest.raises(AddressError, match=r"192\.0\.2\.1.*does not have"):
        anyio.run(transport.listen, "192.0.2.1", 0)


def test_ipv6_works_and_is_shown_in_brackets(transport: TcpTransport) -> None:
    assert shown("::1", 7001) == "[::1]:7001"
    try:
        bind("::1", 0).close()
    except AddressError:
        pytest.skip("this machine has no IPv6 loopback")
    terms = EdgeTerms(edge="e", host="::1", prove=prover(b"k"), timeout=10.0)
    _opens(transport, transport.offer(terms))

    async def main() -> None:
        async with await transport.listen("::1", 0) as listener:
            await (await transport.connect(*transport.address(listener))).aclose()

    anyio.run(main)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=400), st.binary(max_size=400).map(lambda rest: b"tcpC" + rest)))
def test_any_bytes_are_a_ticket_or_refused_as_one(data: bytes) -> None:
    try:
        ticket = decode(data)
    except HandshakeError:
        return
    assert ticket.encode() == data


def test_a_name_of_several_addresses_is_dialled_until_one_answers(transport: TcpTransport) -> None:
    """The listener has IPv4 only; the name may stand for IPv6 first."""
    ticket = transport.offer(attrs.evolve(TERMS, advertised="localhost"))
    _opens(transport, ticket)


def test_an_ipv4_address_over_an_ipv6_socket_is_shown_as_what_it_is() -> None:
    try:
        listener = bind("::", 0)
    except AddressError:
        pytest.skip("this machine has no IPv6")
    with listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])) as dialled:
        accepted, _ = listener.accept()
        with accepted:
            assert local_address(accepted) == dialled.getpeername()


def test_a_relay_carries_no_more_than_fits_and_all_that_was_sent(transport: TcpTransport) -> None:
    """More than every buffer on the way holds, in messages whose ends fall anywhere in its buffer."""
    relay = transport.relay(TERMS, TERMS)
    running = threading.Thread(target=relay.run)
    running.start()
    producer = transport.open(TERMS, relay.producer_ticket, "producer", None)
    consumer = transport.open(TERMS, relay.consumer_ticket, "consumer", None)
    sizes = [1, 0, 77_777, 1 << 20, 262_144 // 4, 3_000_001]
    sent = [torch.arange(size, dtype=torch.int32) for size in sizes] * 3
    sending = threading.Thread(target=lambda: [producer.send(b"h", [each]) for each in sent])
    sending.start()
    for each in sent:
        there = torch.zeros_like(each)
        consumer.recv(lambda header, there=there: [there])
        assert torch.equal(there, each)
    sending.join()
    producer.close()
    running.join(10)
    assert not running.is_alive()
    with pytest.raises(EdgeEnded):
        consumer.recv(lambda header: [])
    consumer.close()


def test_a_doorway_that_a_dialler_wakes_while_it_closes_leaves_nothing_open() -> None:
    doorway = Doorway(bind("127.0.0.1", 0), lambda sock: False)
    doorway._closing.set()
    with suppress(ConnectionError), socket.create_connection(doorway.address):  # its thread may have left by itself
        doorway._thread.join(10)
    doorway.close()
    assert not doorway._thread.is_alive()
    assert doorway._waker.fileno() == -1


def test_no_more_than_16_are_let_in_at_a_time_and_none_is_left_out() -> None:
    lock = threading.Lock()
    inside = most = seen = 0

    def admit(sock: socket.socket) -> bool:
        nonlocal inside, most, seen
        with lock:
            inside, seen = inside + 1, seen + 1
            most = max(most, inside)
        sock.recv(1)  # until it is hurried
        with lock:
            inside -= 1
        return False

    doorway = Doorway(bind("127.0.0.1", 0), admit)
    strangers = [socket.create_connection(doorway.address) for _ in range(40)]
    deadline = time.monotonic() + 20
    while seen < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    doorway.close()
    assert (inside, most, seen) == (0, 16, 40)
    for stranger in strangers:
        stranger.close()
