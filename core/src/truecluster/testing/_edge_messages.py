"""The rules of what an edge carries."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truecluster.api import EdgeBroken, EdgeTimeout

from ._edge_ends import EdgeGiven, Message, Opened, Route, nowhere, to
from .rules import ranging, refusal, require

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]
LARGER_THAN_BUFFERS = 16 << 20
"""Bytes of the largest section on the routes where the largest of all would cost seconds and show nothing more."""


def _tensor(dtype: torch.dtype, shape: list[int], seed: int) -> torch.Tensor:
    """Any bits; a bool has only two."""
    made = torch.Generator().manual_seed(seed)
    count = int(torch.Size(shape).numel()) * dtype.itemsize
    values = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), generator=made, dtype=torch.uint8)
    return values.view(dtype).view(shape)


_tensors = st.builds(
    _tensor, st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3), st.integers(0, 2**32 - 1)
)
_messages = st.lists(
    st.builds(Message, st.binary(min_size=1, max_size=100), st.lists(_tensors, max_size=4)), min_size=1, max_size=3
)


class MessageRules(EdgeGiven):
    """Bits, sizes, order, room and limits."""

    @ranging
    @given(messages=_messages)
    def test_every_tensor_arrives_bit_for_bit(self, opened: Opened, messages: list[Message]) -> None:
        """Tensors of every dtype and shape arrive bit for bit where ``place`` says, behind their header."""
        with opened() as ends:
            self.exchange(ends, *messages)

    def test_sections_of_any_size_arrive_whole(self, opened: Opened, route: Route) -> None:
        """A tensor of any size arrives whole, from 0 bytes to 256 MiB."""
        largest = self.largest if route == "direct" else min(self.largest, LARGER_THAN_BUFFERS)
        with opened() as ends:
            for size in sorted({min(size, largest) for size in (0, 4, 1 << 16, (1 << 16) + 4, 1 << 20, largest)}):
                section = torch.arange(size // 4, dtype=torch.int32)
                self.exchange(ends, Message(b"%d" % size, [section, section[:2]]))

    def test_a_message_without_bytes_is_a_message(self, opened: Opened) -> None:
        """An empty header without tensors is a message like any other, and so is an empty tensor of any stride."""
        numpys = torch.empty(0, dtype=torch.int32).as_strided((0,), (0,))  # as it makes them
        with opened() as ends:
            self.exchange(ends, Message(b""), Message(b"behind it"), Message(b"ids", [numpys]), Message(b"last"))

    def test_a_thousand_small_messages_keep_their_order(self, opened: Opened) -> None:
        """Messages arrive in the order in which they were sent, also where a thousand wait for a late consumer."""
        messages = [Message(b"%d" % i, [torch.full((i % 4,), i)]) for i in range(1000)]
        with opened() as ends:
            sending = self.send(ends, *messages)
            sending.blocked(self.moment_s)
            self.receive(ends, *messages)
            sending.result()

    def test_what_was_sent_may_be_overwritten_at_once(self, opened: Opened) -> None:
        """When ``send`` returns, its tensors may be overwritten: what arrives is what they held before."""
        with opened() as ends:
            buffer, place = torch.full((100,), 7), torch.zeros(100, dtype=torch.int64)
            self.send(ends, Message(b"h", [buffer])).result()
            buffer.fill_(9)
            self.background("recv", lambda: ends.consumer.recv(to([place]))).result()
            require(bool(place.eq(7).all()), "the 7s that were sent", place[:3].tolist())

    def test_a_producer_waits_for_a_consumer_that_does_not_receive(self, opened: Opened) -> None:
        """``send`` waits once 64 MiB lie with nobody who receives them: no memory is taken beyond that."""
        with opened() as ends:
            sent: list[int] = []
            sending = self.flood(ends, sent)
            before = -1
            while before < sum(sent) <= self.most_buffered:
                before = sum(sent)
                sending.blocked(4 * self.moment_s)
            taken = f"{sum(sent)} bytes were taken"
            require(sum(sent) <= self.most_buffered, f"a wait before {self.most_buffered} bytes", taken)

    def test_memory_that_is_not_contiguous_is_refused(self, opened: Opened) -> None:
        """A tensor that is not contiguous is refused with `ValueError`, by ``send`` and as a place of ``recv``."""
        crooked = torch.arange(12).view(3, 4).t()
        with opened() as ends, refusal(ValueError, strides=crooked.stride(), of="send"):
            self.send(ends, Message(b"h", [crooked])).result()
        with opened() as ends:
            self.send(ends, Message(b"h", [crooked.contiguous()])).result()
            with refusal(ValueError, strides=crooked.stride(), of="recv"):
                self.background("recv", lambda: ends.consumer.recv(to([crooked]))).result()

    def test_a_header_over_the_limit_never_reaches_core(self, opened: Opened) -> None:
        """A header of ``max_header`` bytes is taken; a longer one breaks the edge and never reaches ``place``."""
        reached: list[int] = []

        def place(header: bytes) -> list[torch.Tensor]:
            reached.append(len(header))
            return []

        with opened() as ends:
            self.exchange(ends, Message(bytes(self.max_header)))
            self.send(ends, Message(bytes(self.max_header + 1))).result()
            with refusal(EdgeBroken, max_header=self.max_header, header_bytes=self.max_header + 1):
                self.background("recv", lambda: ends.consumer.recv(place)).result()
        require(not reached, "place is not called", f"it was called with {reached} bytes")

    @pytest.mark.parametrize("size", [0, 3, 5])
    def test_a_payload_of_another_size_breaks_it(self, opened: Opened, size: int) -> None:
        """A payload that is not as large as the places breaks the edge, and it stays broken."""
        with opened() as ends:
            self.send(ends, Message(b"h", [torch.zeros(4)])).result()
            for where in ([torch.zeros(size)], []):
                with refusal(EdgeBroken, sent=16, places=4 * size):
                    self.background("recv", lambda where=where: ends.consumer.recv(to(where))).result()  # type: ignore[misc]

    @pytest.mark.parametrize("error", [EdgeBroken, KeyError])
    def test_a_header_that_core_refuses_breaks_it(self, opened: Opened, error: type[Exception]) -> None:
        """What ``place`` raises comes out of ``recv``, and the edge is broken from then on."""

        def refuse(header: bytes) -> list[torch.Tensor]:
            raise error("not this one")

        with opened() as ends:
            self.send(ends, Message(b"h", [torch.zeros(4)]), Message(b"next")).result()
            with refusal(error, "not this one", raised=error.__name__):
                self.background("recv", lambda: ends.consumer.recv(refuse)).result()
            with refusal(EdgeBroken, raised=error.__name__):
                self.background("recv", lambda: ends.consumer.recv(nowhere)).result()

    def test_a_message_that_has_begun_has_a_deadline(self, opened: Opened) -> None:
        """``send`` raises `EdgeTimeout` where a message is not taken within ``timeout`` seconds."""
        with opened(timeout=3 * self.moment_s) as ends, refusal(EdgeTimeout, timeout=3 * self.moment_s):
            self.flood(ends, []).result()

    def test_the_wait_for_a_message_has_no_deadline(self, opened: Opened) -> None:
        """``recv`` waits for the next message for as long as it takes, whatever ``timeout`` says."""
        with opened(timeout=self.moment_s) as ends:
            receiving = self.background("recv", lambda: ends.consumer.recv(nowhere))
            receiving.blocked(4 * self.moment_s)
            self.send(ends, Message(b"late")).result()
            came = receiving.result()
            require(came == b"late", "the message that came late", repr(came))
