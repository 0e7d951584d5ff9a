"""Weights in quant groups, laid out anew once: what the library reads."""

from __future__ import annotations

import pytest
import torch
from tcplug_cpu_kernels.handles import prepare, resident_bytes
from tcplug_cpu_kernels.layouts import WIRES

from truecluster.api import Packed, Role, Slot

ROW = torch.arange(16, dtype=torch.uint8)


def halves(*values):
    return torch.tensor(values, dtype=torch.float16).view(torch.uint8)


def prepared(format, shape, *parts):
    slot = Slot("w", Role.LINEAR, shape)
    return prepare(slot, Packed(format.id, shape, torch.cat(parts)), format).data


def in_panel(rows):
    """Rows ``[out ≤ 16, bytes]``, four bytes of each in turn."""
    panel = torch.zeros(16, rows.shape[1], dtype=torch.uint8)
    panel[: len(rows)] = rows
    return torch.cat([panel[:, at : at + 4].flatten() for at in range(0, rows.shape[1], 4)])


def of_panel(*values):
    return halves(*values, *[0.0] * (16 - len(values)))


def test_q4_0_is_parted_and_put_in_panels(format_of):
    """One row of two blocks, which are a half and sixteen bytes each."""
    one, other = ROW * 17, ROW * 16
    data = prepared(format_of("gguf.q4_0"), (1, 64), halves(0.5), one, halves(2.0), other)
    assert torch.equal(data, torch.cat([in_panel(torch.cat([one, other])[None]), of_panel(0.5), of_panel(2.0)]))


def test_q4_1_is_parted_and_put_in_panels(format_of):
    """Two rows of one block, which is two halves and sixteen bytes."""
    one, other = ROW * 17, ROW * 16
    data = prepared(format_of("gguf.q4_1"), (2, 32), halves(0.5, -1), one, halves(2, 3), other)
    gap = torch.zeros(32, dtype=torch.uint8)
    wanted = [in_panel(torch.stack([one, other])), of_panel(0.5, 2), gap, of_panel(-1, 3)]
    assert torch.equal(data, torch.cat(wanted))


def test_q8_0_becomes_unsigned(format_of):
    """One row of one block: -128, -127, ... -97 are 0, 1, ... 31 around 128."""
    data = prepared(format_of("gguf.q8_0"), (1, 32), halves(0.5), torch.arange(128, 160, dtype=torch.uint8))
    codes = data[:512].view(8, 16, 4)
    assert torch.equal(codes[:, 0].flatten(), torch.arange(32, dtype=torch.uint8))
    assert torch.equal(data[512:], of_panel(0.5))


def test_sections_are_put_in_panels(format_of):
    """Seventeen rows of int4: a panel, and one that has a single row."""
    codes, scales = torch.randint(0, 256, (17, 16), dtype=torch.uint8), torch.arange(17, dtype=torch.float16)
    gap = torch.zeros(-17 * 16 % 64, dtype=torch.uint8)
    data = prepared(format_of("int4.g32.sym"), (17, 32), codes.flatten(), gap, scales.view(torch.uint8))
    wanted = [in_panel(codes[:16]), in_panel(codes[16:]), halves(*range(16)), of_panel(16)]
    assert torch.equal(data, torch.cat(wanted))


@pytest.mark.parametrize("id", WIRES)
def test_a_handle_keeps_no_second_copy(format_of, id):
    format, weight = format_of(id), torch.randn(48, 128)
    packed = format.pack(weight)
    handle = prepare(Slot("w", Role.LINEAR, (48, 128)), packed, format)
    assert handle.data.untyped_storage().nbytes() == handle.data.numel() == resident_bytes(format, (48, 128))
    assert handle.data.numel() <= packed.data.numel() + 2 * 63
