"""Messages over an async byte stream whose peer has proven the key.

A frame is ``[8-byte big-endian length of the envelope][envelope]``, then the raw sections that the envelope
declares. A section is received straight into memory that the caller gives for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout

from .codec import decode, encode
from .limits import MAX_ENVELOPE
from .messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import ByteStream

Buffer = bytes | bytearray | memoryview
Sections = Callable[[Message, "tuple[int, ...]"], "Sequence[memoryview]"]
"""Message and the byte counts of its sections → writable memory of exactly these sizes. It raises to refuse them."""

_LENGTH = struct.Struct(">Q")
_READ_AT_ONCE = 1 << 20
_WRITE_AT_ONCE = 1 << 20


def no_sections(message: Message, sizes: tuple[int, ...]) -> Sequence[memoryview]:
    """For connections that carry no raw bytes."""
    if sizes:
        raise EdgeBroken(f"a {type(message).__name__} with raw bytes on a connection that carries none")
    return ()


class Connection:
    """One message at a time in each direction; sends of several tasks take turns.

    Between two messages nothing is timed, and a cancelled `receive` loses nothing; a message that has begun must be
    through within ``timeout`` seconds. Endings are told apart as on edges: `EdgeClosed` by this side, `EdgeEnded` by
    the peer between messages, `EdgeBroken` inside one or by a rule, `EdgeTimeout`. A message that was cut short, by
    an error or a cancellation, is the last of its direction; an `Error` can still be sent to who broke the rules.
    """

    def __init__(self, stream: ByteStream, timeout: float = 30.0) -> None:
        self._stream = stream
        self._timeout = timeout
        self._turn = anyio.Lock()
        self._sent = self._received = 0
        self._rest = memoryview(b"")
        self._cut_short = {"send": False, "receive": False}

    async def send(self, message: Message, sections: Sequence[Buffer] = (), request_id: str | None = None) -> None:
        """Send one message; returns when the memory of ``sections`` may be reused."""
        views = [memoryview(section).cast("B") for section in sections]
        async with self._turn:
            envelope = encode(message, self._sent + 1, [view.nbytes for view in views], request_id)
            with self._whole_message("send"):
                await self._write(_LENGTH.pack(len(envelope)) + envelope)
                for view in views:
                    await self._write(view)
            self._sent += 1

    async def receive(self, sections: Sections = no_sections) -> Message:
        """Wait for a message and fill the memory that ``sections`` gives for its raw bytes."""
        self._check("receive")
        if not self._rest:
            with _translated("waiting for a message"):
                self._rest = memoryview(await self._stream.receive(_READ_AT_ONCE))
        with self._whole_message("receive"):
            return await self._receive_message(sections)

    async def aclose(self) -> None:
        """End the connection. Safe to call twice."""
        await self._stream.aclose()

    async def _receive_message(self, sections: Sections) -> Message:
        (length,) = _LENGTH.unpack(await self._read(_LENGTH.size))
        if not 0 < length <= MAX_ENVELOPE:
            raise EdgeBroken(f"a message whose envelope claims {length} bytes; 1 to {MAX_ENVELOPE} are allowed")
        envelope, message = decode(await self._read(length))
        self._received += 1
        if envelope.seq != self._received:
            raise EdgeBroken(f"message {envelope.seq} where number {self._received} was due")
        views = sections(message, envelope.sections)
        if tuple(view.nbytes for view in views) != envelope.sections:
            raise EdgeBroken(f"a {envelope.type} whose raw bytes are not of the size that is due")
        for view in views:
            await self._read_into(view)
        return message

    async def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        await self._read_into(memoryview(data))
        return data

    async def _read_into(self, view: memoryview) -> None:
        filled = 0
        while filled < view.nbytes:
            if not self._rest:
                self._rest = memoryview(await self._stream.receive(_READ_AT_ONCE))
            piece = self._rest[: view.nbytes - filled]
            view[filled : filled + piece.nbytes] = piece
            filled += piece.nbytes
            self._rest = self._rest[piece.nbytes :]

    async def _write(self, data: bytes | memoryview) -> None:
        for start in range(0, len(data), _WRITE_AT_ONCE):
            await self._stream.send(bytes(data[start : start + _WRITE_AT_ONCE]))

    def _check(self, direction: str) -> None:
        if self._cut_short[direction]:
            raise EdgeClosed(f"{direction}: an earlier message was cut short, so nothing can follow it")

    @contextmanager
    def _whole_message(self, direction: str) -> Iterator[None]:
        self._check(direction)
        self._cut_short[direction] = True
        with _translated(f"{direction} of a message, which may take {self._timeout:g} s", inside=True):
            with anyio.fail_after(self._timeout):
                yield
        self._cut_short[direction] = False


@contextmanager
def _translated(doing: str, inside: bool = False) -> Iterator[None]:
    """A stream's errors in the words of `Connection`."""
    try:
        yield
    except TimeoutError:
        raise EdgeTimeout(f"{doing}: not done in time") from None
    except anyio.ClosedResourceError:
        raise EdgeClosed(f"{doing}: this side closed the connection") from None
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        kind = EdgeBroken if inside or isinstance(error, anyio.BrokenResourceError) else EdgeEnded
        raise kind(f"{doing}: the peer closed the connection, or it was lost") from error
