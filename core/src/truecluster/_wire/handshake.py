"""The first bytes of every connection: who is there, what for, and the proof that both hold the same key.

    dialer                       listener
    greeting  →
                                 ←  greeting      43 bytes each: magic, protocol number, purpose, 32-byte nonce
    proof     →                                   HMAC-SHA256(key, role ‖ dialer's greeting ‖ listener's greeting)
                                 ←  proof         the same with the other role byte, so that nothing can be reflected

The listener answers a greeting with its own, so that both can say what differs, and proves itself only to a dialer
that has done so. Every read has a fixed size, and nothing else is read before the key is proven. The conversation does
no input or output: it yields bytes to send and sizes to read.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

import anyio

from truecluster.api import EdgeBroken, EdgeEnded, HandshakeError, Read, Write

if TYPE_CHECKING:
    from anyio.abc import ByteStream

MAGIC = b"\x89TrueCl\n"
PROTOCOL = 1
_GREETING = struct.Struct(">8sHB32s")
_PROOF_BYTES = 32
_DIALER, _LISTENER = b"\x01", b"\x02"


class NoAnswer(HandshakeError):
    """The peer hung up before it had greeted, or was not through in time: it may just be starting, or busy."""


_NO_ANSWER = "the peer closed the connection without a TrueCluster greeting: is this the port of a TrueCluster?"
_NO_PROOF = (
    "the peer closed the connection instead of proving the key. Most likely its key is another one: "
    "give the coordinator's key with --key-file or TRUECLUSTER_KEY"
)
_WRONG_KEY = "the peer holds another key: give the coordinator's key with --key-file or TRUECLUSTER_KEY"


class Purpose(IntEnum):
    """What a connection is for."""

    CONTROL = 1
    BULK = 2
    EDGE = 3


Conversation = Generator["bytes | int", bytes, Purpose]
"""Yields bytes to send, or the exact number of bytes to read, which are sent in."""


def conversation(key: bytes, purposes: Collection[Purpose], dialer: bool) -> Conversation:
    """One side of the handshake; returns what the connection is for. A dialer has one purpose, a listener maybe more.

    Raises `HandshakeError` saying what differs; throw in the error of a failed read.
    """
    if dialer:
        (purpose,) = purposes
        mine = _greeting(purpose)
        yield mine
        theirs = yield from _read_greeting()
        _check_greeting(theirs, purposes)
        transcript = mine + theirs
        yield _proof(key, _DIALER, transcript)
        yield from _check_proof(_proof(key, _LISTENER, transcript))
        return purpose
    theirs = yield from _read_greeting()
    mine = _greeting(next((p for p in purposes if p == _purpose(theirs)), next(iter(purposes))))
    yield mine
    purpose = _check_greeting(theirs, purposes)
    transcript = theirs + mine
    yield from _check_proof(_proof(key, _DIALER, transcript))
    yield _proof(key, _LISTENER, transcript)
    return purpose


def _greeting(purpose: Purpose) -> bytes:
    return _GREETING.pack(MAGIC, PROTOCOL, purpose, secrets.token_bytes(32))


def prover(key: bytes, purpose: Purpose = Purpose.EDGE) -> Callable[[Read, Write, bool], None]:
    """The handshake over blocking reads and writes, for `EdgeTerms.prove`; the deadline is the transport's."""

    def prove(read: Read, write: Write, dialer: bool) -> None:
        steps = conversation(key, (purpose,), dialer)
        wanted = next(steps, None)
        while wanted is not None:
            wanted = _advance(steps, wanted, read, write)

    return prove


async def prove_async(stream: ByteStream, key: bytes, purpose: Purpose, dialer: bool, timeout: float = 10.0) -> None:
    """The handshake over a stream, all of it within ``timeout`` seconds. Raises `HandshakeError`."""
    await _within(stream, conversation(key, (purpose,), dialer), timeout)


async def accept_async(stream: ByteStream, key: bytes, purposes: Collection[Purpose], timeout: float = 10.0) -> Purpose:
    """The listener's side for a connection that may have come for any of ``purposes``; returns which it is."""
    found: list[Purpose] = []

    def steps() -> Generator[bytes | int, bytes, Purpose]:
        found.append((yield from conversation(key, purposes, dialer=False)))
        return found[0]

    await _within(stream, steps(), timeout)
    return found[0]


async def _within(stream: ByteStream, steps: Conversation, timeout: float) -> None:
    try:
        with anyio.fail_after(timeout):
            await _converse(stream, steps)
    except TimeoutError:
        raise NoAnswer(
            f"the peer did not finish the handshake within {timeout:g} s: is this the port of a TrueCluster?"
        ) from None


def _read_greeting() -> Generator[int, bytes, bytes]:
    magic = yield from _read(len(MAGIC), NoAnswer(_NO_ANSWER))
    if magic != MAGIC:
        raise HandshakeError(f"the peer is not a TrueCluster: it began with {magic!r}. Check host and port")
    return magic + (yield from _read(_GREETING.size - len(MAGIC), NoAnswer(_NO_ANSWER)))


def _purpose(greeting: bytes) -> int:
    purpose: int = _GREETING.unpack(greeting)[2]
    return purpose


def _check_greeting(greeting: bytes, purposes: Collection[Purpose]) -> Purpose:
    _, protocol, theirs, _ = _GREETING.unpack(greeting)
    if protocol != PROTOCOL:
        raise HandshakeError(
            f"protocol {PROTOCOL} here, {protocol} there: install the same version of truecluster on both machines"
        )
    if theirs not in purposes:
        here = " or ".join(_name(purpose) for purpose in purposes)
        raise HandshakeError(f"a connection for {here} here, for {_name(theirs)} there: check the port")
    return Purpose(theirs)


def _check_proof(expected: bytes) -> Generator[int, bytes, None]:
    if not hmac.compare_digest((yield from _read(_PROOF_BYTES, HandshakeError(_NO_PROOF))), expected):
        raise HandshakeError(_WRONG_KEY)


def _read(size: int, ended: HandshakeError) -> Generator[int, bytes, bytes]:
    try:
        return (yield size)
    except (EdgeEnded, EdgeBroken) as error:
        raise ended from error


def _proof(key: bytes, role: bytes, transcript: bytes) -> bytes:
    return hmac.digest(key, role + transcript, "sha256")


def _name(purpose: int) -> str:
    return Purpose(purpose).name.lower() if purpose in list(Purpose) else f"unknown purpose {purpose}"


def _advance(steps: Conversation, wanted: bytes | int, read: Read, write: Write) -> bytes | int | None:
    """Do what ``steps`` wants and return what it wants next, ``None`` at its end."""
    if isinstance(wanted, bytes):
        with suppress(EdgeEnded, EdgeBroken):  # what the peer said before it hung up is still to be read
            write(wanted)
        return _resume(steps, b"")
    try:
        answer = read(wanted)
    except (EdgeEnded, EdgeBroken) as error:
        return steps.throw(error)
    return _resume(steps, answer)


async def _converse(stream: ByteStream, steps: Conversation) -> None:
    wanted = next(steps, None)
    while wanted is not None:
        if isinstance(wanted, bytes):
            with suppress(anyio.BrokenResourceError):  # as in _advance
                await stream.send(wanted)
            wanted = _resume(steps, b"")
        else:
            try:
                answer = await _read_exactly(stream, wanted)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                wanted = steps.throw(EdgeEnded(str(error)))
            else:
                wanted = _resume(steps, answer)


async def _read_exactly(stream: ByteStream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += await stream.receive(size - len(received))
    return received


def _resume(steps: Conversation, answer: bytes) -> bytes | int | None:
    try:
        return steps.send(answer)
    except StopIteration:
        return None
