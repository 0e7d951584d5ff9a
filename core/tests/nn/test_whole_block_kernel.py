"""A kernel of another package takes whole blocks: chosen by what it accepts, with no word in an architecture."""

from __future__ import annotations

import sys
from pathlib import Path

import fused_blocks
import pytest
import torch
from tiny_models import FP32, TinyModel, TinyPlugin

from truecluster._pipeline.stage import Stage
from truecluster._registry import Registry, Selection
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader
from truecluster.api import Span

IDS = torch.randint(0, 61, (45,), generator=torch.Generator().manual_seed(5), dtype=torch.int32)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Where the kernel is installed, as pip would leave it."""
    info = tmp_path / "tcplug_fused-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tcplug-fused\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[truecluster.plugins]\nfused = fused_blocks\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    registry = Registry.installed(Selection(allow=("tcplug-fused",)))
    registry.register(TinyPlugin(), "tiny", "1")
    assert not registry.failures
    return registry


def hidden(stage: Stage) -> torch.Tensor:
    """Behind the blocks, of a prompt in two chunks and a decoded token, ``[45, hidden]``."""
    results, position = [], 0
    for step, count in enumerate((20, 24, 1)):
        header = StepHeader(
            kind=Kind.RUN_PREFILL,
            run=1,
            step=step,
            count=count,
            rows=(Row(4, position, count, count),),
            opened=(Opened(4),) if step == 0 else (),
            pages=(Page(4, 3), Page(4, 1)) if step == 0 else (),
        )
        with torch.inference_mode():
            results.extend(stage.execute(header, IDS[position : position + count]))
        position += count
    return torch.cat(results)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1)])
def test_a_kernel_that_runs_blocks_its_own_way_gives_the_same(registry, heads, kv_heads):
    blocks = Span(0, 3, embed=True)
    model = TinyModel.make(num_attention_heads=heads, num_key_value_heads=kv_heads)
    expected = hidden(model.stage(blocks))
    before = fused_blocks.FusedBlocks.bound
    model.registry = registry
    found = hidden(model.stage(blocks))
    assert fused_blocks.FusedBlocks.bound == before + 3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    norm = found.double() * (found.double().square().mean(-1, keepdim=True) + model.config.eps).rsqrt()
    logits = (norm * model.weights["head.norm"]) @ model.weights["head.output"].double().T
    torch.testing.assert_close(logits, model.logits(IDS.tolist()), atol=1e-4, rtol=1e-5)


def test_what_it_does_not_accept_goes_to_the_reference(registry):
    """Biased linears: the same registry, another network."""

    class Biased(type(TinyModel.make().architecture)):
        def build(self, config, part):
            from truecluster import api, nn

            if isinstance(part, api.Block):
                attention = nn.decoder_attention(config, str(part), qkv_bias=True)
                norms = {name: nn.decoder_norm(config, f"{part}.{name}") for name in ("attention_norm", "mlp_norm")}
                return nn.DecoderBlock(attention=attention, mlp=nn.decoder_mlp(config, str(part)), **norms)
            return super().build(config, part)

    before = fused_blocks.FusedBlocks.bound
    model = TinyModel.make(architecture=Biased())
    model.registry = registry
    hidden(model.stage(Span(0, 3, embed=True)))
    assert fused_blocks.FusedBlocks.bound == before


def test_tied_ends_share_one_handle():
    model = TinyModel.make(tie_word_embeddings=True)
    model.whole()
    assert sorted(model.reads) == sorted(set(model.reads)) == sorted(model.weights)
    model.whole()
    assert len(model.reads) == len(model.weights), "handles are kept for the next run"
    model.handles.keep_only({"embed.tokens"}, FP32)
    model.whole()
    assert len(model.reads) == 2 * len(model.weights) - 1
