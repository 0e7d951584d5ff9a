"""The part of the kernel contract that is about handles: what they hold, and what memory they may lean on."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch

from truecluster.api import Packed, Role, Slot
from truecluster.nn import Embedding, Linear

from ._held import held_bytes
from ._kernel_cases import Case, Taken
from ._kernel_catalogue import BIASED, EMBEDDINGS, LINEARS, NORMS, ONE_OF_EACH
from ._kernel_rows import RowTests, same
from ._lowered import Bound, bound_to, error, packed_of
from .rules import Broken, require

TIED = Slot("embed.tokens", Role.HEAD, (33, 160))
"""Read by an embedding and by a linear."""


class HandleTests(RowTests):
    """Of whatever the kernel takes."""

    def held(self, handle: Any, packed: Packed) -> int:
        """Bytes that a handle made of ``packed`` occupies; give it where they aren't in tensors or buffers."""
        return held_bytes(handle, packed.data)

    def test_resident_bytes_are_what_a_handle_holds(self, taken: Taken) -> None:
        """`resident_bytes` is what a handle occupies, to the byte: planners count on it."""
        for case in taken.some((*LINEARS, *BIASED, *NORMS, *EMBEDDINGS, *ONE_OF_EACH)):
            for slot in case.description.slots():
                packed, format = packed_of(slot, case.target), case.target.formats[slot.key]
                held = self.held(case.kernel.prepare(slot, packed, case.target), packed)
                claimed = case.kernel.resident_bytes(format, slot.shape)
                require(claimed == held, f"{held} B, as held", f"{claimed} B", case=case, slot=slot.key)

    def test_packed_bytes_are_only_read(self, taken: Taken) -> None:
        """`prepare`, `bind` and calls change no packed byte: the memory may be a mapped file that others read."""
        for case in taken.some(ONE_OF_EACH):
            run = case.bind()
            case.call(run, case.rows(2))
            for slot in case.description.slots():
                found, wanted = run.packed[slot.key].data, packed_of(slot, case.target).data
                same(found[:, None], wanted[:, None], "the bytes as they were given", case=case, slot=slot.key)

    def test_packed_bytes_may_lie_in_a_mapped_file(self, taken: Taken, tmp_path: Path) -> None:
        """Packed bytes of a mapped file, which begin at an odd address, give what others give."""
        for case in taken.some(ONE_OF_EACH):
            mapped = {
                slot.key: in_file(packed_of(slot, case.target), tmp_path / slot.key)
                for slot in case.description.slots()
            }
            run = bound_to(case.kernel, case.description, case.target, mapped)
            wanted = case.call(case.bind(), case.rows(3)).clone()
            self.near(case.call(run, case.rows(3)), wanted, 4 * self.bound(case), case=case)

    def test_packed_bytes_may_go_once_a_handle_is_made(self, taken: Taken) -> None:
        """A handle holds on to the memory that it reads: what nobody holds is used for other things."""
        for case in taken.some(ONE_OF_EACH):
            wanted = case.call(case.bind(), case.rows(3)).clone()
            handles, memories = {}, []
            for slot in case.description.slots():
                memories.append(bytearray(packed_of(slot, case.target).data.numpy().tobytes()))
                unheld = sys.getrefcount(memories[-1])
                handles[slot.key] = prepared_in(memories[-1], case, slot)
                if sys.getrefcount(memories[-1]) == unheld:
                    memories[-1][:] = bytes([0xFF]) * len(memories[-1])
            run = Bound(case.kernel.bind(case.description, handles, case.target), {})
            found = case.call(run, case.rows(3))
            same(found, wanted, "what it gives while the caller holds the packed bytes", case=case)

    def test_equal_keys_are_not_equal_tensors(self, taken: Taken) -> None:
        """Tensors whose slots have the same key and shape, as those of two models, have a handle each."""
        for case in taken.some(ONE_OF_EACH):
            if case.description.slots():
                first, second = (case.call(case.bind(seed), case.rows(3)).clone() for seed in (0, 1))
                expected = "another result with other weights under the same keys"
                require(error(second, first) > 0.01, expected, "the result of the weights before", case=case)

    def test_one_handle_serves_all_that_read_it(self, taken: Taken) -> None:
        """A tied matrix has one handle, from which an embedding and a linear are bound, and bound again."""
        cases = taken.of([Linear(TIED)])
        tied = [case for case in cases if case.kernel.accepts(Embedding(TIED), case.target)]
        if not tied:
            pytest.skip("it doesn't take both an embedding and a linear")
        ids = torch.tensor([32, 0, 7], dtype=torch.int32)
        for case in tied:
            ends = (Embedding(TIED), case.upload(ids)), (case.description, case.upload(case.rows(3)))
            wanted = [
                case.device.download(attrs.evolve(case, description=end).bind()(x.clone())).clone() for end, x in ends
            ]
            packed = packed_of(TIED, case.target)
            handles = {TIED.key: case.kernel.prepare(TIED, packed, case.target)}
            for (end, x), own in [*zip(ends, wanted, strict=True)] * 2:
                try:
                    found = case.kernel.bind(end, handles, case.target)(x.clone())
                except Exception as failed:
                    raise Broken("another callable of the same handle", failed, {"case": case, "of": end}) from failed
                same(found, own, "what a handle of its own gives", case=case, of=end)


def in_file(packed: Packed, path: Path) -> Packed:
    """The same in a mapped file, where it begins at the second byte."""
    path.write_bytes(bytes(1) + packed.data.numpy().tobytes())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return attrs.evolve(packed, data=torch.frombuffer(mapped, dtype=torch.uint8, offset=1))


def prepared_in(memory: bytearray, case: Case, slot: Slot) -> Any:
    """A handle of the packed tensor that lies there."""
    data = torch.frombuffer(memory, dtype=torch.uint8)
    packed = Packed(case.target.formats[slot.key].id, slot.shape, data)
    return case.kernel.prepare(slot, packed, case.target)
