"""The suite of edges catches edges that are wrong."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from types import MappingProxyType

import attrs
import pytest
from doubles import Double
from edge_doubles import End, Far, FarEnd, Offer, Reaching, Relaying, Right, SharedChannel

from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout, HandshakeError, TransportSpec
from truecluster.testing.transport import EdgeContract

SUITE = EdgeContract
SHORT_S = 1.0
"""Patience with doubles that let somebody wait for ever, or leave something behind for good."""


class OverDouble(EdgeContract):
    """Right where a subclass doesn't say otherwise; what reaches only this process needs no second one."""

    made = Right
    offers = MappingProxyType({"edges": True, "local": True})
    largest, most_buffered, patience_s, moment_s = 1 << 18, 4 << 20, 10.0, 0.02

    @pytest.fixture
    def route(self):
        return "direct"

    @pytest.fixture
    def transport(self):
        transport = self.made()
        yield transport
        self.close(transport)

    @pytest.fixture
    def spec(self):
        return TransportSpec(name="double", target=f"{Far.__module__}:{Far.__name__}", **self.offers)


def over(name, made, patience_s=OverDouble.patience_s, **offers):
    """A suite over a double, to be found in this module under the double's name."""
    given = {"made": made, "patience_s": patience_s, "offers": {**OverDouble.offers, **offers}}
    suite = type(name, (OverDouble,), {**given, "__module__": __name__})
    globals()[name] = suite
    return suite


def ends(name, end, **given):
    """A suite over edges whose ends are wrong."""
    return over(name, type(name, (Right,), {"end": end}), **given)


class RightRelays(OverDouble):
    made = Relaying
    offers = MappingProxyType({**OverDouble.offers, "relays": True})
    route = EdgeContract.route


RIGHT = [over("RightReaching", Reaching, local=False), RightRelays]


class Halving(End):
    """Takes numbers for pairs of bytes."""

    def fill(self, places, tensors):
        super().fill(places, tensors)
        if sum(tensor.nbytes for tensor in tensors) % 2:
            last = next(tensor for tensor in reversed(places) if tensor.nbytes)
            last.view(-1)[-1] = 1


class Truncating(End):
    """Delivers the first 64 KiB of a tensor."""

    def fill(self, places, tensors):
        kept = [(place.clone(), place) for place in places if place.nbytes > 1 << 16]
        super().fill(places, tensors)
        for before, place in kept:
            at = (1 << 16) // place.itemsize
            place.view(-1)[at:] = before.view(-1)[at:]


class Swallowing(End):
    """Takes a message without bytes for nothing."""

    def send(self, header, tensors):
        if header or tensors:
            super().send(header, tensors)


class Overtaken(End):
    """Sends every 400th message after the next one."""

    count, late = 0, None

    def send(self, header, tensors):
        self.count += 1
        if self.count % 400 == 0:
            self.late = header, self.copy(tensors)
            return
        super().send(header, tensors)
        if self.late is not None:
            late, self.late = self.late, None
            super().send(*late)


class Borrowing(End):
    """Keeps what it was sent instead of a copy."""

    def copy(self, tensors):
        super().copy(tensors)
        return tensors


class Hoarding(End):
    """Takes twice what may be buffered."""

    capacity = 2 * OverDouble.most_buffered


class Crooked(End):
    """Sends memory as it lies."""

    def copy(self, tensors):
        return [tensor.clone() for tensor in tensors]


class Boundless(End):
    """Knows no limit of headers."""

    def limit(self, header):
        pass


class Generous(End):
    """Fills what fits."""

    def fill(self, places, tensors):
        if sum(t.nbytes for t in places) == sum(t.nbytes for t in tensors):
            super().fill(places, tensors)


class Forgiving(End):
    """Goes on with the next message after one that core refused."""

    def recv(self, place):
        refused = []

        def placed(header):
            try:
                return place(header)
            except Exception as error:
                refused.append(error)
                raise

        try:
            return super().recv(placed)
        except Exception:
            if refused:
                self.broken = False
                self.channel.left.discard(self.role)
            raise


class Patient(End):
    """Sends for as long as it takes."""

    def __init__(self, terms, channel, role):
        super().__init__(attrs.evolve(terms, timeout=60.0), channel, role)


class Impatient(End):
    """Waits for a message as long as one may take."""

    def await_message(self):
        if not self.channel.filled.wait_for(lambda: self.channel.queue or self.channel.left, self.terms.timeout):
            raise EdgeTimeout("no message")


class Dropping(End):
    """Forgets at its end what it has not delivered yet."""

    def close(self):
        if self.channel.queue and self.role == "producer":
            self.channel.queue.pop()
        super().close()


class Quiet(End):
    """A consumer that closes tells nobody."""

    gone = False

    def check(self, gone):
        if self.gone:
            raise EdgeClosed("closed here")
        super().check(gone)

    def close(self):
        self.gone = True
        if self.role == "producer":
            super().close()


class Vague(End):
    """Calls its own end the peer's."""

    def check_own(self):
        if self.role in self.channel.left and not self.broken:
            raise EdgeEnded("closed by somebody")

    def send(self, header, tensors):
        self.check_own()
        super().send(header, tensors)

    def recv(self, place):
        self.check_own()
        return super().recv(place)


class DeafConsumer(End):
    """An abort wakes nobody who receives."""

    def abort(self):
        with self.channel.lock:
            self.channel.left.add(self.role)
            self.channel.room.notify_all()


class DeafProducer(End):
    """An abort wakes nobody who sends."""

    def abort(self):
        with self.channel.lock:
            self.channel.left.add(self.role)
            self.channel.filled.notify_all()


class Reusing(Right):
    """A ticket is good until its edge is open."""

    def enter(self, terms, ticket, offer):
        return offer.entered or super().enter(terms, ticket, offer)


class Trusting(Right):
    """Lets in whoever has tried."""

    def prove(self, dialler, listener):
        with suppress(HandshakeError, EdgeEnded, EdgeBroken):
            super().prove(dialler, listener)


class OneAtATime(Right):
    """Proves one dialler after the other."""

    def __init__(self):
        super().__init__()
        self.proving = threading.Lock()

    def prove(self, dialler, listener):
        with self.proving:
            super().prove(dialler, listener)


class Faithful(Right):
    """Dials for as long as it takes."""

    def prove(self, dialler, listener):
        super().prove(attrs.evolve(dialler, open_timeout=60.0), listener)


class Trustful(Right):
    """Takes anything for a ticket."""

    def find(self, ticket):
        return self.offers[ticket] if not ticket.startswith(b"ticket") else super().find(ticket)


class Wordy(Right):
    """Has large tickets."""

    def ticket(self):
        return super().ticket() + bytes(2000)


class Crossing(Right):
    """Mixes up who came while others had come."""

    def wait(self, terms, ticket, offer):
        channel = super().wait(terms, ticket, offer)
        others = [other for other in self.offers.values() if other.entered]
        if len(others) > 1:
            others[0].entered, channel = channel, others[0].entered
        return channel


class Abrupt(Right):
    """Says that it was closed where nobody came."""

    def nobody(self):
        return EdgeClosed("nobody came")


class Lingering(Right):
    """Still lets in who comes with a ticket that was withdrawn."""

    def __init__(self):
        super().__init__()
        self.withdrawn = {}

    def withdraw(self, ticket):
        self.withdrawn.setdefault(ticket, self.offers.get(ticket))
        super().withdraw(ticket)

    def find(self, ticket):
        return self.withdrawn.get(ticket) or super().find(ticket)

    def enter(self, terms, ticket, offer):
        return offer.enter() if ticket in self.withdrawn else super().enter(terms, ticket, offer)


class AnyPort(Right):
    """Offers on ports that don't exist."""

    def check_port(self, port):
        pass


class Undead(Right):
    """Goes on offering after its end."""

    def offer(self, terms, role="consumer"):
        self.check_port(terms.port)
        return self.put(Offer(terms, role)) if not self.closed else b"ticket"


class Stubborn(Right):
    """Its end leaves dials alone."""

    def end_talks(self):
        pass


class Leaking(Right):
    """Keeps a descriptor after its end."""

    def close(self):
        super().close()
        weakref.finalize(self, os.close, os.dup(1))


class Promising(Right):
    """Gives out relays that it doesn't have."""

    def relay(self, producer, consumer):
        return None


class Careless(Relaying):
    """A relay that nobody comes to ends like any other."""

    class shared(SharedChannel):
        def give_up(self):
            self.channel.left.add("relay")


class Endless(Relaying):
    """A relay that is closed goes on."""

    class shared(SharedChannel):
        def close(self):
            self.closed = True
            self.withdraw()


class CallingItAnEnd(FarEnd):
    ended_inside = EdgeEnded


class Waiting(FarEnd):
    def limit(self, seconds):
        self.sock.settimeout(30)


class EndedReaching(Reaching):
    far_end = CallingItAnEnd


class WaitingReaching(Reaching):
    far_end = Waiting


INCOMPLETE = "test_a_message_that_its_producer_leaves_incomplete_is_given_up"
DOUBLES = {
    "test_edges_that_are_not_offered_are_refused": Double(
        over("Unoffered", Right, edges=False), "expected: PluginError"
    ),
    "test_every_tensor_arrives_bit_for_bit": Double(ends("HalvingEnds", Halving), "other bits in tensor"),
    "test_sections_of_any_size_arrive_whole": Double(ends("TruncatingEnds", Truncating), r"sent: .*int32\[16385\]"),
    "test_a_message_without_bytes_is_a_message": Double(ends("SwallowingEnds", Swallowing), "expected: header b''"),
    "test_a_thousand_small_messages_keep_their_order": Double(
        ends("OvertakenEnds", Overtaken), "expected: header b'399'"
    ),
    "test_what_was_sent_may_be_overwritten_at_once": Double(ends("BorrowingEnds", Borrowing), r"came: \[9, 9, 9\]"),
    "test_a_producer_waits_for_a_consumer_that_does_not_receive": Double(
        ends("HoardingEnds", Hoarding), r"a wait before 4194304 bytes\s+came: \d+ bytes were taken"
    ),
    "test_memory_that_is_not_contiguous_is_refused": Double(ends("CrookedEnds", Crooked), r"strides: \(1, 4\)"),
    "test_a_header_over_the_limit_never_reaches_core": Double(ends("BoundlessEnds", Boundless), "header_bytes: 1001"),
    "test_a_payload_of_another_size_breaks_it": Double(ends("GenerousEnds", Generous), "sent: 16"),
    "test_a_header_that_core_refuses_breaks_it": Double(ends("ForgivingEnds", Forgiving), "raised: EdgeBroken"),
    "test_a_message_that_has_begun_has_a_deadline": Double(
        ends("PatientEnds", Patient, patience_s=SHORT_S), "send ends"
    ),
    "test_the_wait_for_a_message_has_no_deadline": Double(ends("ImpatientEnds", Impatient), "no message"),
    "test_the_end_comes_after_what_was_sent": Double(ends("DroppingEnds", Dropping), "closed there"),
    "test_a_producer_learns_that_its_consumer_is_gone": Double(
        ends("QuietEnds", Quiet, patience_s=SHORT_S), "EdgeEnded or EdgeBroken"
    ),
    "test_closed_by_this_side_is_told_apart": Double(ends("VagueEnds", Vague), "closed by somebody"),
    "test_an_abort_wakes_a_blocked_consumer": Double(
        ends("DeafConsumerEnds", DeafConsumer, patience_s=SHORT_S), "the aborted recv ends"
    ),
    "test_an_abort_wakes_a_blocked_producer": Double(
        ends("DeafProducerEnds", DeafProducer, patience_s=SHORT_S), "send ends"
    ),
    INCOMPLETE: Double(over("EndedReachingEdges", EndedReaching, local=False), "process: killed"),
    "test_a_ticket_lets_one_in": Double(over("ReusingEdges", Reusing), "its edge is not open yet"),
    "test_who_does_not_prove_the_key_uses_nothing_up": Double(over("TrustingEdges", Trusting), "stranger: another key"),
    "test_silent_strangers_leave_room": Double(over("OneAtATimeEdges", OneAtATime, SHORT_S), "open as producer ends"),
    "test_a_peer_that_falls_silent_is_given_up": Double(
        over("FaithfulEdges", Faithful, SHORT_S), "open as producer ends"
    ),
    "test_what_is_no_ticket_is_refused": Double(over("TrustfulEdges", Trustful), "ticket: b''"),
    "test_a_ticket_is_small_and_like_no_other": Double(over("WordyEdges", Wordy), "at most 1024 bytes"),
    "test_edges_do_not_mix": Double(over("CrossingEdges", Crossing), "expected: header b'0'"),
    "test_a_peer_that_does_not_come_is_waited_for_in_vain": Double(
        over("AbruptEdges", Abrupt), "expected: EdgeTimeout"
    ),
    "test_an_offer_that_is_taken_back_lets_nobody_in": Double(over("LingeringEdges", Lingering), "ticket: withdrawn"),
    "test_an_offer_on_a_port_that_does_not_exist_is_refused": Double(over("AnyPortEdges", AnyPort), "port: -1"),
    "test_closing_wakes_who_waits_and_withdraws_every_offer": Double(
        over("UndeadEdges", Undead), "an offer afterwards"
    ),
    "test_closing_ends_a_dial": Double(over("StubbornEdges", Stubborn, SHORT_S), "expected: EdgeClosed"),
    "test_closing_leaves_nothing_open": Double(over("LeakingEdges", Leaking, SHORT_S), r"expected: \d+ descriptors"),
    "test_a_relay_that_is_not_offered_is_refused": Double(over("PromisingEdges", Promising), "expected: PluginError"),
    "test_a_relay_whose_ends_do_not_come_gives_up": Double(
        over("CarelessEdges", Careless, relays=True), "expected: EdgeTimeout"
    ),
    "test_closing_a_relay_ends_it_for_all": Double(
        over("EndlessEdges", Endless, SHORT_S, relays=True), "a closed relay's run ends"
    ),
}
WAITING = over("WaitingReachingEdges", WaitingReaching, SHORT_S, local=False)


def test_a_consumer_without_a_deadline_inside_a_message_is_caught(verdict) -> None:
    caught = verdict(WAITING, INCOMPLETE)
    assert "process: stopped" in caught[INCOMPLETE]
