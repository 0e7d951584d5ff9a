"""The reference against a forward by hand: whole sequences in fp64, without a cache."""

from __future__ import annotations

import pytest
import torch
from tiny_models import TinyModel

from truecluster.testing._network import Network

IDS = torch.randint(0, 61, (70,), generator=torch.Generator().manual_seed(3))


def network(model: TinyModel) -> Network:
    return Network(model.architecture, model.config, model.weights)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1), (8, 2)])
def test_query_head_h_reads_key_head_h_divided_by_the_group(heads, kv_heads):
    """Repeating key heads in tile order is the classic mistake (NUM-04)."""
    model = TinyModel.make(num_attention_heads=heads, num_key_value_heads=kv_heads)
    found = network(model).logits(IDS, [33, 1, 1, 35])
    torch.testing.assert_close(found, model.logits(IDS.tolist()).float(), atol=1e-4, rtol=1e-5)


def test_a_tied_head_reads_the_embedding():
    model = TinyModel.make(tie_word_embeddings=True)
    assert "head.output" not in model.weights
    found = network(model).logits(IDS, [70])
    torch.testing.assert_close(found, model.logits(IDS.tolist()).float(), atol=1e-4, rtol=1e-5)


def test_a_row_does_not_depend_on_an_outlier_beside_it():
    """Row-local, bit for bit: rows of one matrix product with the same number of rows."""
    model = TinyModel.make()
    mates = torch.stack([IDS[:8], IDS[8:16]])
    whole = network(model)
    alone = whole.logits(mates[0], [8])
    model.weights["embed.tokens"][IDS[7]] *= 1e4
    loud = network(model).logits(mates[0], [8])
    assert torch.equal(alone[: IDS[:8].tolist().index(int(IDS[7]))], loud[: IDS[:8].tolist().index(int(IDS[7]))])
