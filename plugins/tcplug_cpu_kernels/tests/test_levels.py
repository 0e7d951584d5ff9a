"""Every instruction set gives the same: AVX2 and AVX-512 bit for bit, plain C but for rounding."""

from __future__ import annotations

import ctypes

import pytest
import torch
from tcplug_cpu_kernels.handles import prepare
from tcplug_cpu_kernels.kernel import CpuKernel
from tcplug_cpu_kernels.layouts import layout_of
from tcplug_cpu_kernels.leaves import bind_embedding
from tcplug_cpu_kernels.native import BEST, library, path
from tcplug_cpu_kernels.workspace import Workspace

from truecluster.api import Role, Slot
from truecluster.nn import Embedding

pytestmark = pytest.mark.skipif(path() is None, reason="the library wasn't built: there is no C compiler")
WORKSPACE = Workspace()
BLOCKS = ("gguf.q4_0", "gguf.q4_1", "gguf.q8_0")
IDS = ("fp32", "fp16", "bf16", "int8", *(f"int4.g{n}.{kind}" for n in (32, 64, 128) for kind in ("asym", "sym")))


def test_rows_are_what_the_format_unpacks(use, format_of):
    """Bit for bit, of matrices whose last panel, sub-block and vector aren't full."""
    for id in (*IDS, *BLOCKS):
        for shape in ((7, 32), (16, 96), (35, 320)) if id in BLOCKS else ((5, 17), (16, 64), (35, 333)):
            format, weight = format_of(id), torch.randn(shape)
            packed = format.pack(weight)
            handle = prepare(Slot("w", Role.EMBEDDING, shape), packed, format)
            index = torch.tensor([shape[0] - 1, 0, 0, shape[0] // 2])
            embed = bind_embedding(Embedding(Slot("w", Role.EMBEDDING, shape)), {"w": handle}, WORKSPACE)
            for level in (0, 1, BEST):
                use(level)
                assert torch.equal(embed(index), format.unpack(packed)[index]), (id, shape, level)


@pytest.fixture
def use():
    yield library().tc_use
    library().tc_use(BEST)


def product(format, out, width, count):
    generator = torch.Generator().manual_seed(width)
    weight = torch.randn(out, width, generator=generator)
    handle = prepare(Slot("w", Role.LINEAR, (out, width)), format.pack(weight), format)
    struct, x, y = handle.struct(), torch.randn(count, width, generator=generator), torch.empty(count, out)
    address = ctypes.addressof(struct)
    room = WORKSPACE.at_least(library().tc_linear_scratch(address, count))
    library().tc_linear(address, x.data_ptr(), y.data_ptr(), count, room, 1)
    return y


@pytest.mark.parametrize(
    ("id", "shape"),
    [(id, shape) for id in IDS for shape in ((6, 128), (5, 8), (4, 161), (9, 608))]
    + [(id, (33, 608)) for id in BLOCKS],
)
def test_a_linear_has_the_same_bits(use, format_of, id, shape):
    if use(2) != 2:
        pytest.skip("this machine has no AVX-512 with VNNI")
    wide = product(format_of(id), *shape, 11)
    assert use(1) == 1
    assert torch.equal(product(format_of(id), *shape, 11), wide)


@pytest.mark.parametrize(("id", "width"), [*((id, 300) for id in IDS), *((id, 320) for id in BLOCKS)])
def test_plain_c_agrees(use, format_of, id, width):
    if use(BEST) == 0:
        pytest.skip("this machine has nothing but plain C")
    best = product(format_of(id), 9, width, 11)
    assert use(0) == 0
    torch.testing.assert_close(product(format_of(id), 9, width, 11), best, rtol=1e-5, atol=1e-4)


def test_a_level_that_is_not_there_gives_the_next_below(use):
    assert 0 <= use(99) <= 2
    assert use(0) == 0


def test_halves_are_read_exactly_in_plain_c(use, format_of):
    """Every finite half: denormals, zeros of both signs, the largest."""
    use(0)
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.float16)
    finite = torch.where(bits.isfinite(), bits, 0).float().view(-1, 1)
    handle = prepare(Slot("w", Role.LINEAR, tuple(finite.shape)), format_of("fp16").pack(finite), format_of("fp16"))
    struct, x, y = handle.struct(), torch.ones(1, 1), torch.empty(1, len(finite))
    address = ctypes.addressof(struct)
    room = WORKSPACE.at_least(library().tc_linear_scratch(address, 1))
    library().tc_linear(address, x.data_ptr(), y.data_ptr(), 1, room, 1)
    assert torch.equal(y.flatten(), finite.flatten())


def test_layouts_are_known_by_format_id_alone(format_of):
    assert [layout_of(format_of(id)) is not None for id in IDS] == [True] * len(IDS)
    stranger = format_of("fp32")
    for id in ("int4", "int4.g32", "int4.g48.sym", "int4.g32.asym.v2", "gguf.q6_k", "gguf", "int3"):
        stranger.id = id
        assert layout_of(stranger) is None


@pytest.mark.parametrize("id", ["fp32", "fp16", "bf16", "int8"])
def test_a_handle_keeps_the_bytes_as_they_came(format_of, id):
    format = format_of(id)
    packed = format.pack(torch.randn(5, 96))
    handle = prepare(Slot("w", Role.LINEAR, (5, 96)), packed, format)
    assert handle.data.data_ptr() == packed.data.data_ptr()
    assert packed.data.numel() == sum(s + -s % 64 for s in sizes(handle)[:-1]) + sizes(handle)[-1]


def sizes(handle):
    return handle.layout.sizes(*handle.shape)


def test_int4_fills_whole_blocks_and_whole_panels(format_of):
    """Of 70 weights: three blocks of 16 bytes, two quant groups; of 17 rows: two panels of 16."""
    assert layout_of(format_of("int4.g64.asym")).sizes(17, 70) == [32 * 3 * 16, 32 * 2 * 2, 32 * 2 * 2]


def test_the_level_is_told(use):
    levels = [use(wanted) for wanted in (0, BEST)]
    told = {level: CpuKernel().details() for level in levels if use(level) == level}
    assert told[0].startswith("plain C")
    assert all(f"AVX{'2' if level == 1 else '-512'}" in told[level] for level in told if level)
