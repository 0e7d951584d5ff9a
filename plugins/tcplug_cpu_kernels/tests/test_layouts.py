"""Blocks of ggml, laid out anew when they are prepared: what the library reads, and the rows that come back."""

from __future__ import annotations

import pytest
import torch
from tcplug_cpu_kernels.handles import prepare, resident_bytes
from tcplug_cpu_kernels.layouts import WIRES

from truecluster.api import Packed, Role, Slot

ROW_OF_8 = torch.arange(16, dtype=torch.uint8)


def handle_of(format, weight):
    slot = Slot("w", Role.LINEAR, tuple(weight.shape))
    return prepare(slot, format.pack(weight), format)


def test_q4_0_by_hand(format_of):
    """Two blocks of one row: halves, then sixteen bytes, become all bytes, then all halves."""
    codes, other = ROW_OF_8 * 17, ROW_OF_8 * 16
    data = torch.cat([half(0.5), codes, half(2.0), other])
    format = format_of("gguf.q4_0")
    handle = prepare(Slot("w", Role.LINEAR, (1, 64)), Packed(format.id, (1, 64), data), format)
    assert torch.equal(handle.data, torch.cat([codes, other, torch.zeros(32, dtype=torch.uint8), half(0.5), half(2.0)]))


def test_q4_1_by_hand(format_of):
    """Two rows of one block."""
    codes, other = ROW_OF_8 * 17, ROW_OF_8 * 16
    data = torch.cat([half(0.5), half(-1.0), codes, half(2.0), half(3.0), other])
    format = format_of("gguf.q4_1")
    handle = prepare(Slot("w", Role.LINEAR, (2, 32)), Packed(format.id, (2, 32), data), format)
    gap = torch.zeros(60, dtype=torch.uint8)
    wanted = [codes, other, gap[:32], half(0.5), half(2.0), gap, half(-1.0), half(3.0)]
    assert torch.equal(handle.data, torch.cat(wanted))


def half(value):
    return torch.tensor([value], dtype=torch.float16).view(torch.uint8)


@pytest.mark.parametrize("id", WIRES)
@pytest.mark.parametrize("shape", [(7, 32), (5, 96), (3, 320)])
def test_rows_are_what_the_format_unpacks(format_of, id, shape):
    format, weight = format_of(id), torch.randn(shape)
    index = torch.tensor([shape[0] - 1, 0, 0])
    assert torch.equal(handle_of(format, weight).rows(index), format.unpack(format.pack(weight))[index])


@pytest.mark.parametrize("id", WIRES)
def test_a_handle_keeps_no_second_copy(format_of, id):
    format, weight = format_of(id), torch.randn(40, 96)
    packed = format.pack(weight)
    handle = prepare(Slot("w", Role.LINEAR, (40, 96)), packed, format)
    assert handle.data.untyped_storage().nbytes() == handle.data.numel() == resident_bytes(format, (40, 96))
    assert handle.data.numel() <= packed.data.numel() + 2 * 63
