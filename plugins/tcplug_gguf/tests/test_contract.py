"""The GGUF plugin keeps the contracts of checkpoints and of formats."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from tcplug_gguf.checkpoint import GgufSource
from tcplug_gguf.formats import GgufFormat

from truecluster.api import Packed
from truecluster.testing.checkpoint import CheckpointContract
from truecluster.testing.format import FormatContract

NAMES = {
    f"gguf.{kind.name.lower()}": kind.name
    for kind in gguf.GGMLQuantizationType
    if kind in gguf.quants._type_traits and kind.name != "BF16"
}
"""Every block type that the gguf package can unpack."""


class TestGguf(CheckpointContract):
    @pytest.fixture
    def source(self):
        return GgufSource()

    @pytest.fixture
    def reference(self, tiny):
        return tiny.write()

    @pytest.fixture
    def expected(self, dequantized):
        return dequantized

    def format(self, id):
        return GgufFormat.from_id(id)


@pytest.mark.parametrize("id", NAMES)
class TestBlocks(FormatContract):
    packs = vectors = False
    shapes = ((7, 512), (5, 256), (1, 768))

    @pytest.fixture
    def format(self, id, blocks):
        self.blocks = blocks
        return GgufFormat.from_id(id)

    def sample(self, format, shape):
        data = self.blocks(gguf.GGMLQuantizationType[NAMES[format.id]], shape)
        return Packed(format.id, shape, torch.from_numpy(data.reshape(-1)))

    def oracle(self, packed):
        data = packed.data.numpy().reshape(packed.shape[0], -1)
        return torch.from_numpy(gguf.dequantize(data, gguf.GGMLQuantizationType[NAMES[packed.format]]))


@pytest.mark.parametrize("id", NAMES)
def test_a_vector_of_whole_blocks_is_one_row(id, blocks):
    data = blocks(gguf.GGMLQuantizationType[NAMES[id]], (1, 512))
    packed = Packed(id, (512,), torch.from_numpy(data.reshape(-1)))
    values = gguf.dequantize(data, gguf.GGMLQuantizationType[NAMES[id]]).reshape(-1)
    assert np.array_equal(GgufFormat.from_id(id).rows(packed, torch.tensor([0])).numpy(), values)
