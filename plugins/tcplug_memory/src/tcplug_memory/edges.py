"""Edges between threads of one process."""

from __future__ import annotations

import secrets
import threading

import attrs

from truecluster.api import (
    DeviceContext,
    Edge,
    EdgeClosed,
    EdgeRole,
    EdgeTerms,
    EdgeTimeout,
    EdgeTransport,
    HandshakeError,
    TransportError,
)

from .channel import Channel, Side
from .edge import MemoryEdge
from .ports import check_port
from .proof import Proof

_MARKS: dict[EdgeRole, bytes] = {"producer": b"memory P", "consumer": b"memory C"}
_SIDES: dict[EdgeRole, Side] = {"producer": Side.PRODUCER, "consumer": Side.CONSUMER}


@attrs.define(eq=False)
class _Offer:
    terms: EdgeTerms
    channel: Channel | None = None


class MemoryEdges(EdgeTransport):
    """The key is proven here too, so that a test of it needs no network. No thread is out of another's reach, so
    nothing is relayed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offers: dict[bytes, _Offer] = {}
        self._proofs: set[Proof] = set()
        self._closed = False

    def offer(self, terms: EdgeTerms, role: EdgeRole = "consumer") -> bytes:
        check_port(terms.host, terms.port)
        ticket = _MARKS[role] + secrets.token_bytes(32)
        with self._changed:
            self._check(terms)
            self._offers[ticket] = _Offer(terms)
        return ticket

    def open(self, terms: EdgeTerms, ticket: bytes, role: EdgeRole, device: DeviceContext | None) -> Edge:
        own = ticket.startswith(_MARKS[role])
        channel = self._await(terms, ticket) if own else self._enter(terms, ticket)
        return MemoryEdge(channel, _SIDES[role], terms, device)

    def withdraw(self, ticket: bytes) -> None:
        with self._changed:
            self._offers.pop(ticket, None)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for offer in self._offers.values():
                if offer.channel is not None:
                    offer.channel.leave(Side.CONSUMER)
                    offer.channel.leave(Side.PRODUCER)
            self._offers.clear()
            for proof in self._proofs:
                proof.end()
            self._changed.notify_all()

    def _enter(self, terms: EdgeTerms, ticket: bytes) -> Channel:
        offer = self._find(terms, ticket)
        self._prove(terms, Proof(terms, offer.terms))
        with self._changed:
            self._check(terms)
            if offer.channel is not None or self._offers.get(ticket) is not offer:
                raise HandshakeError(f"edge {terms.edge}: its ticket was used before; ask for a new one")
            offer.channel = Channel(terms.edge, terms.timeout)
            self._changed.notify_all()
            return offer.channel

    def _prove(self, terms: EdgeTerms, proof: Proof) -> None:
        with self._changed:
            self._check(terms)
            self._proofs.add(proof)
        try:
            proof.run()
        except TransportError:
            self._check(terms)
            raise
        finally:
            with self._changed:
                self._proofs.discard(proof)

    def _await(self, terms: EdgeTerms, ticket: bytes) -> Channel:
        offer = self._find(terms, ticket)
        with self._changed:
            self._changed.wait_for(
                lambda: offer.channel is not None or self._offers.get(ticket) is not offer, terms.open_timeout
            )
            self._check(terms)
            withdrawn = self._offers.pop(ticket, None) is not offer
        if withdrawn:
            raise EdgeClosed(f"edge {terms.edge}: this side took its offer back")
        if offer.channel is None:
            raise EdgeTimeout(f"edge {terms.edge}: the other end did not come within {terms.open_timeout:g} s")
        return offer.channel

    def _find(self, terms: EdgeTerms, ticket: bytes) -> _Offer:
        with self._changed:
            self._check(terms)
            offer = self._offers.get(ticket)
        if offer is None:
            raise HandshakeError(
                f"edge {terms.edge}: its ticket is not an open offer of this process, or was used before"
            )
        return offer

    def _check(self, terms: EdgeTerms) -> None:
        if self._closed:
            raise EdgeClosed(f"edge {terms.edge}: this side has closed its transport")
