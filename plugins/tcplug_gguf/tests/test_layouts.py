"""Every block layout against the gguf package, bit by bit: random bytes, every special scale, every code."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from gguf import quants
from tcplug_gguf import formats
from tcplug_gguf.formats import GgufFormat
from tcplug_gguf.layouts import UNPACK
from tcplug_gguf.layouts.grids import GRIDS, even_signs, grid
from tcplug_gguf.types import TENSOR_TYPES, UNSUPPORTED

from truecluster.api import Packed

TYPES = gguf.GGMLQuantizationType
KINDS = [TYPES(number) for number, kind in TENSOR_TYPES.items() if kind.format in UNPACK]
SCALES = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS"), (0,)),
    **dict.fromkeys(("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"), (0,)),
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)},
}
"""Where a block has fp16 numbers, in bytes. IQ1_M spreads its one over four words."""
SPECIAL = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01],
    dtype=np.uint16,
)
"""Zeros, the smallest and largest subnormal and normal numbers, ones, infinities, and two that are no numbers."""


def random_bytes(kind: gguf.GGMLQuantizationType, count: int) -> np.ndarray:
    size = gguf.GGML_QUANT_SIZES[kind][1]
    return np.random.default_rng(kind).integers(0, 256, (count, size), dtype=np.uint8)


def check(kind: gguf.GGMLQuantizationType, blocks: np.ndarray) -> None:
    ours = UNPACK[f"gguf.{kind.name.lower()}"](torch.from_numpy(blocks)).numpy()
    with np.errstate(all="ignore"):
        theirs = gguf.dequantize(blocks, kind)
    assert ours.dtype == np.float32
    assert np.array_equal(ours, theirs, equal_nan=True)


def test_every_type_that_the_gguf_package_unpacks_is_read() -> None:
    assert {*KINDS, TYPES.BF16} == set(quants._type_traits)
    for number, kind in TENSOR_TYPES.items():
        assert (TYPES(number).name, gguf.GGML_QUANT_SIZES[TYPES(number)]) == (kind.name, (kind.block, kind.nbytes))


def test_every_other_type_is_known_by_name() -> None:
    others = {kind.value: kind.name for kind in TYPES if kind.value not in TENSOR_TYPES}
    assert others.items() <= UNSUPPORTED.items()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_random_bytes(kind: gguf.GGMLQuantizationType) -> None:
    check(kind, random_bytes(kind, 2000))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("byte", [0, 255])
def test_all_bits_alike(kind: gguf.GGMLQuantizationType, byte: int) -> None:
    check(kind, np.full_like(random_bytes(kind, 1), byte))


@pytest.mark.parametrize("name", SCALES)
def test_special_scales(name: str) -> None:
    """Each at each place, beside scales that may be any."""
    kind = TYPES[name]
    for place in SCALES[name]:
        blocks = random_bytes(kind, 4 * len(SPECIAL))
        blocks[:, place : place + 2] = np.tile(SPECIAL, 4)[:, None].view(np.uint8)
        check(kind, blocks)


def test_special_scales_of_iq1_m() -> None:
    """Its four bits are the upper ones of the four words at byte 48, the lowest four first."""
    blocks = random_bytes(TYPES.IQ1_M, 4 * len(SPECIAL))
    for word in range(4):
        upper = (np.tile(SPECIAL, 4) >> 4 * word & 15).astype(np.uint8)
        blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | upper << 4
    check(TYPES.IQ1_M, blocks)


@pytest.mark.parametrize(("kind", "places"), [(TYPES.MXFP4, 1), (TYPES.NVFP4, 4)])
def test_every_scale_of_the_small_floats(kind: gguf.GGMLQuantizationType, places: int) -> None:
    blocks = random_bytes(kind, 256)
    for place in range(places):
        blocks[:, place] = np.roll(np.arange(256), 7 * place)
    check(kind, blocks)


@pytest.mark.parametrize("name", GRIDS)
def test_grids_are_ggmls(name: str) -> None:
    theirs = getattr(quants, {"iq1": "IQ1_S"}.get(name, name.upper()))
    theirs.init_grid()
    assert np.array_equal(grid(name, torch.device("cpu")).numpy(), theirs.grid[0, 0])


def test_signs_are_ggmls() -> None:
    bits = np.unpackbits(np.frombuffer(quants.IQ2_XXS.ksigns, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    assert np.array_equal(even_signs(torch.device("cpu")).numpy(), 1 - 2.0 * bits)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_large_matrix_is_unpacked_in_tiles(kind: gguf.GGMLQuantizationType, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what lies beside the result doesn't grow with it."""
    id, seen = f"gguf.{kind.name.lower()}", []
    unpack, block = UNPACK[id], gguf.GGML_QUANT_SIZES[kind][0]
    monkeypatch.setattr(formats, "TILE", 1024)
    monkeypatch.setitem(UNPACK, id, lambda blocks: seen.append(len(blocks) * block) or unpack(blocks))  # type: ignore[arg-type]
    data = torch.from_numpy(random_bytes(kind, 5 * 768 // block))
    whole = GgufFormat.from_id(id).unpack(Packed(id, (5, 768), data.flatten()))
    assert max(seen) <= 1024
    assert sum(seen) == 5 * 768
    assert torch.equal(whole.view(-1, block).nan_to_num(), unpack(data).nan_to_num())
