"""A right transport of edges within a process, the short way, for doubles that are wrong in one way.

Another process may be the producer: it dials the port that is in a ticket, proves the key and sends one message.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress

from truecluster.api import (
    AddressError,
    Edge,
    EdgeBroken,
    EdgeClosed,
    EdgeEnded,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    Relay,
    TransportError,
)

ROOM = 1 << 18
OTHER = {"producer": "consumer", "consumer": "producer"}


class Channel:
    """A queue of copies between two ends, bounded by their bytes."""

    def __init__(self):
        self.lock = threading.RLock()
        self.filled, self.room = threading.Condition(self.lock), threading.Condition(self.lock)
        self.queue, self.left, self.held = deque(), set(), 0

    def ring(self):
        with self.lock:
            self.filled.notify_all()
            self.room.notify_all()


class End(Edge):
    """One end of a channel."""

    capacity = ROOM

    def __init__(self, terms, channel, role):
        self.terms, self.channel, self.role, self.broken = terms, channel, role, False

    def check(self, gone):
        if self.broken:
            raise EdgeBroken("broken earlier")
        if self.role in self.channel.left:
            raise EdgeClosed("closed here")
        if gone and {OTHER[self.role], "relay"} & self.channel.left:
            raise EdgeEnded("closed there")

    def copy(self, tensors):
        if not all(tensor.is_contiguous() for tensor in tensors):
            raise ValueError("not contiguous")
        return [tensor.clone() for tensor in tensors]

    def has_room(self):
        return self.channel.held < self.capacity

    def send(self, header, tensors):
        with self.channel.lock:
            self.check(gone=True)
            copies = self.copy(tensors)
            if not self.channel.room.wait_for(lambda: self.has_room() or self.channel.left, self.terms.timeout):
                raise EdgeTimeout("nobody receives")
            self.check(gone=True)
            self.channel.queue.append((header, copies))
            self.channel.held += sum(tensor.nbytes for tensor in copies)
            self.channel.filled.notify_all()

    def recv(self, place):
        header, tensors = self.take()
        try:
            self.limit(header)
            self.fill(place(header), tensors)
        except BaseException:
            self.break_off()
            raise
        return header

    def take(self):
        with self.channel.lock:
            self.await_message()
            self.check(gone=not self.channel.queue)
            taken = self.channel.queue.popleft()
            self.channel.held -= sum(tensor.nbytes for tensor in taken[1])
            self.channel.room.notify_all()
            return taken

    def await_message(self):
        self.channel.filled.wait_for(lambda: self.channel.queue or self.channel.left)

    def limit(self, header):
        if len(header) > self.terms.max_header:
            raise EdgeBroken("header too long")

    def fill(self, places, tensors):
        if sum(t.nbytes for t in places) != sum(t.nbytes for t in tensors):
            raise EdgeBroken("another size")
        if not all(tensor.is_contiguous() for tensor in places):
            raise ValueError("not contiguous")
        for there, tensor in zip(places, tensors, strict=True):
            there.copy_(tensor)

    def break_off(self):
        self.broken = True
        self.abort()

    def abort(self):
        self.leave()

    def close(self):
        self.leave()

    def leave(self):
        with self.channel.lock:
            self.channel.left.add(self.role)
            self.channel.ring()


class Offer:
    """``role`` is who offers; ``None`` where both dial."""

    def __init__(self, terms, role, channel=None):
        self.terms, self.role, self.shared, self.entered = terms, role, channel, None

    def enter(self):
        self.entered = self.shared or Channel()
        return self.entered


class Right(EdgeTransport):
    """Edges whose ends find each other by their ticket."""

    end = End

    def __init__(self):
        self.changed, self.offers, self.talks = threading.Condition(threading.RLock()), {}, set()
        self.closed, self.numbers, self.relays = False, itertools.count(), []

    def offer(self, terms, role="consumer"):
        self.check_port(terms.port)
        return self.put(Offer(terms, role))

    def check_port(self, port):
        if not 0 <= port <= 65535:
            raise AddressError(f"no port {port}")

    def put(self, offer):
        if self.closed:
            raise EdgeClosed("closed")
        ticket = self.ticket()
        self.offers[ticket] = offer
        return ticket

    def ticket(self):
        return b"ticket %d" % next(self.numbers)

    def withdraw(self, ticket):
        with self.changed:
            self.offers.pop(ticket, None)
            self.changed.notify_all()

    def find(self, ticket):
        if self.closed:
            raise EdgeClosed("closed")
        if ticket not in self.offers:
            raise HandshakeError("no such ticket")
        return self.offers[ticket]

    def open(self, terms, ticket, role, device):
        offer = self.find(ticket)
        channel = (self.wait if role == offer.role else self.enter)(terms, ticket, offer)
        return self.end(terms, channel, role)

    def enter(self, terms, ticket, offer):
        self.prove(terms, offer.terms)
        with self.changed:
            if self.offers.get(ticket) is not offer or offer.entered:
                raise HandshakeError("used before")
            offer.enter()
            self.changed.notify_all()
        return offer.entered

    def wait(self, terms, ticket, offer):
        with self.changed:
            gone = lambda: self.closed or self.offers.get(ticket) is not offer  # noqa: E731
            self.changed.wait_for(lambda: offer.entered or gone(), terms.open_timeout)
            if gone():
                raise EdgeClosed("closed")
            del self.offers[ticket]
        if not offer.entered:
            raise self.nobody()
        return offer.entered

    def nobody(self):
        return EdgeTimeout("nobody came")

    def prove(self, dialler, listener):
        talk = Talk(dialler.open_timeout)
        self.talks.add(talk)
        try:
            talk.run(dialler, listener)
        except TransportError as error:
            if self.closed:
                raise EdgeClosed("closed") from error
            raise
        finally:
            self.talks.discard(talk)

    def close(self):
        with self.changed:
            self.closed = True
            self.offers.clear()
            self.changed.notify_all()
        self.end_talks()
        for relay in self.relays:
            relay.close()

    def end_talks(self):
        for talk in list(self.talks):
            talk.end()


class Talk:
    """The proof of two over a pair of sockets."""

    def __init__(self, timeout):
        self.here, self.there = socket.socketpair()
        self.deadline = time.monotonic() + timeout

    def run(self, dialler, listener):
        refused = []
        thread = threading.Thread(target=self.listen, args=(listener, refused))
        thread.start()
        try:
            dialler.prove(lambda n: self.read(self.here, n), self.here.sendall, True)
        finally:
            self.here.shutdown(socket.SHUT_WR)
            thread.join()
            self.here.close()
            self.there.close()
        if refused:
            raise refused[0]

    def listen(self, listener, refused):
        try:
            listener.prove(lambda n: self.read(self.there, n, 60), self.write, False)
        except TransportError as error:
            refused.append(error)
        finally:
            self.there.shutdown(socket.SHUT_WR)

    def write(self, data):
        try:
            self.there.sendall(data)
        except OSError as error:
            raise EdgeBroken("gone") from error

    def read(self, sock, size, more=0):
        data = b""
        while len(data) < size:
            sock.settimeout(max(0.001, self.deadline + more - time.monotonic()))
            try:
                piece = sock.recv(size - len(data))
            except TimeoutError:
                raise EdgeTimeout("silent") from None
            if not piece:
                raise EdgeEnded("gone")
            data += piece
        return data

    def end(self):
        for sock in (self.here, self.there):
            with suppress(OSError):  # it is over already
                sock.shutdown(socket.SHUT_RD)


class SharedChannel(Relay):
    """Both ends share a channel, so nothing needs to be passed on."""

    def __init__(self, transport, producer, consumer):
        self.transport, self.terms, self.channel, self.closed = transport, producer, Channel(), False
        self.offers = [Offer(terms, None, self.channel) for terms in (producer, consumer)]
        self.producer_ticket, self.consumer_ticket = [transport.put(offer) for offer in self.offers]

    def run(self):
        with self.transport.changed:
            both = lambda: all(offer.entered for offer in self.offers)  # noqa: E731
            self.transport.changed.wait_for(lambda: both() or self.closed, self.terms.open_timeout)
        self.withdraw()
        if self.closed:
            raise EdgeClosed("closed")
        if not both():
            self.give_up()
        with self.channel.lock:
            self.channel.filled.wait_for(lambda: self.channel.left)

    def give_up(self):
        raise EdgeTimeout("somebody did not come")

    def withdraw(self):
        for ticket in (self.producer_ticket, self.consumer_ticket):
            self.transport.withdraw(ticket)

    def close(self):
        self.closed = True
        self.withdraw()
        with self.channel.lock:
            self.channel.left.add("relay")
            self.channel.ring()


class Relaying(Right):
    """Relays edges."""

    shared = SharedChannel

    def relay(self, producer, consumer):
        self.relays.append(self.shared(self, producer, consumer))
        return self.relays[-1]


PREFIX = struct.Struct(">IQ")


class Far:
    """The producer in another process."""

    def open(self, terms, ticket, role, device):
        self.sock = socket.create_connection(("127.0.0.1", int(ticket)))
        return self  # its one edge after the other

    def send(self, header, tensors):
        (tensor,) = tensors
        try:
            self.sock.sendall(PREFIX.pack(len(header), tensor.nbytes) + header)
            self.sock.sendall(tensor.numpy().data)
        except OSError as error:
            raise EdgeBroken("gone") from error


class FarEnd(Edge):
    """The consumer of a producer in another process."""

    ended_inside = EdgeBroken

    def __init__(self, terms, sock):
        self.terms, self.sock = terms, sock

    def recv(self, place):
        size, payload = PREFIX.unpack(self.read(PREFIX.size))
        header = self.read(size)
        (there,) = place(header)
        self.read(min(payload, there.nbytes))
        return header

    def read(self, size):
        data, end = b"", time.monotonic() + self.terms.timeout
        while len(data) < size:
            self.limit(end - time.monotonic())
            try:
                piece = self.sock.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                raise EdgeTimeout("slow") from None
            except OSError:
                piece = b""
            if not piece:
                raise self.ended_inside("left inside a message")
            data += piece
        return data

    def limit(self, seconds):
        self.sock.settimeout(max(0.001, seconds))

    def send(self, header, tensors):
        raise NotImplementedError

    def abort(self):
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.sock.close()


class Reaching(Right):
    """What is offered can also be dialled by a producer in another process."""

    far_end = FarEnd

    def __init__(self):
        super().__init__()
        self.listeners = []

    def ticket(self):
        listener = socket.create_server(("127.0.0.1", 0))
        ticket = b"%d" % listener.getsockname()[1]
        thread = threading.Thread(target=self.accept, args=(listener, ticket))
        thread.start()
        self.listeners.append((listener, thread))
        return ticket

    def accept(self, listener, ticket):
        with listener, suppress(OSError):
            sock, _ = listener.accept()
            with self.changed:
                self.offers[ticket].entered = sock
                self.changed.notify_all()

    def open(self, terms, ticket, role, device):
        found = super().open(terms, ticket, role, device)
        return self.far_end(terms, found.channel) if isinstance(found.channel, socket.socket) else found

    def close(self):
        super().close()
        for listener, thread in self.listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.listeners.clear()
