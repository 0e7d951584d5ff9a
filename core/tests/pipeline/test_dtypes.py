"""What a stage computes in, what flows between its blocks, and what its edges carry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from typing import Any

import attrs
import pytest
import torch
from local_runs import spans
from tiny_models import TinyModel

from truecluster._pipeline.dtypes import offered, pick
from truecluster._pipeline.stage import Stage
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader
from truecluster.api import CheckpointError, DType, Dtypes, OutOfMemory, Span
from truecluster.testing._host import HostDevice

FP32, FP16, BF16 = DType.FP32, DType.FP16, DType.BF16
IDS = torch.randint(0, 61, (40,), generator=torch.Generator().manual_seed(3)).tolist()
HEADER = StepHeader(
    kind=Kind.RUN_PREFILL,
    run=1,
    step=0,
    count=len(IDS),
    rows=(Row(0, 0, len(IDS), len(IDS)),),
    opened=(Opened(0),),
    pages=(Page(0, 0), Page(0, 1)),
)
UNIT_ROUNDOFF = {FP32: 2.0**-24, FP16: 2.0**-11, BF16: 2.0**-8}
ROUNDINGS = 12
"""Errors of independent roundings on a token's way through three blocks add up to about so many of one."""


class Half(HostDevice):
    """A processor that says that it has halves, and keeps its residual in them."""

    def __init__(self, *native: DType) -> None:
        self._native = (FP32, *native)

    def native(self, dtype: DType) -> bool:
        return dtype in self._native

    def residual(self, compute: DType) -> DType:
        return compute


@pytest.mark.parametrize(
    ("native", "wanted", "compute"),
    [
        ((), FP16, FP32),
        ((), BF16, FP32),
        ((FP16, BF16), FP16, FP16),
        ((FP16, BF16), BF16, BF16),
        ((FP16, BF16), FP32, FP32),
        ((FP16,), BF16, FP32),
    ],
    ids=str,
)
def test_a_device_computes_in_what_is_wanted_where_it_has_it_and_else_in_fp32(
    native: tuple[DType, ...], wanted: DType, compute: DType
) -> None:
    """LOAD-06: a bf16 model is never computed in fp16 by itself, whatever a device has."""
    assert pick(wanted, offered(Half(*native))) == Dtypes(compute, compute)


def test_a_processor_keeps_its_residual_in_fp32() -> None:
    assert offered(HostDevice()) == (Dtypes(FP32, FP32),)
    assert HostDevice().residual(BF16) is FP32


@pytest.mark.parametrize("pair", [(FP32, FP16), (FP16, BF16), (BF16, FP16), (DType.INT32, FP32)], ids=str)
def test_a_residual_holds_every_value_of_the_computation(pair: tuple[DType, DType]) -> None:
    with pytest.raises(ValueError, match="can't be the residual"):
        Dtypes(*pair)


def chain(model: TinyModel, dtypes: Sequence[Dtypes]) -> list[Stage]:
    """Embed and blocks, a stage for each of ``dtypes``, then a head in fp32, with the edges that a plan lays."""
    blocks = [attrs.evolve(span, head=False) for span in spans(model.config.layers, len(dtypes))]
    placed = [*blocks, Span(model.config.layers, model.config.layers, head=True)]
    every = [*dtypes, Dtypes(FP32, FP32)]
    between = [a.residual.wider(b.residual) for a, b in pairwise(every)]
    edges = [DType.INT32, *between, DType.INT32]
    return [
        model.stage(span, dtypes=each, inbound=edges[i], outbound=edges[i + 1], device=Half(FP16, BF16))
        for i, (span, each) in enumerate(zip(placed, every, strict=True))
    ]


def through(stages: Sequence[Stage]) -> tuple[torch.Tensor, list[torch.dtype]]:
    """Logits of every token, and the dtypes that came over the edges."""
    x, header, carried = torch.tensor(IDS, dtype=torch.int32), HEADER, []
    with torch.inference_mode():
        for stage in stages[:-1]:
            (x,) = stage.execute(header, x)
            carried.append(x.dtype)
        head: Any = stages[-1]._head
        return head(x.to(torch.float32)), carried


def error_of(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative, by the Euclidean norm."""
    return float((found.double() - wanted).norm() / wanted.norm())


KINDS = {
    "fp32": Dtypes(FP32, FP32),
    "fp16": Dtypes(FP16, FP16),
    "bf16": Dtypes(BF16, BF16),
    "fp16+fp32": Dtypes(FP16, FP32),
}


@pytest.mark.parametrize("names", list(product(KINDS, repeat=2)), ids="|".join)
def test_unlike_stages_fit_together(names: tuple[str, str]) -> None:
    model = TinyModel.make()
    dtypes = [KINDS[name] for name in names]
    logits, carried = through(chain(model, dtypes))
    coarsest = max(UNIT_ROUNDOFF[each] for pair in dtypes for each in (pair.compute, pair.residual))
    assert error_of(logits, model.logits(IDS)) < ROUNDINGS * coarsest
    same = names[0] == names[1]
    expected = dtypes[0].residual if same else dtypes[0].residual.wider(dtypes[1].residual)
    assert carried[0] is {FP32: torch.float32, FP16: torch.float16, BF16: torch.bfloat16}[expected]
    assert carried[-1] is torch.float32


@pytest.mark.parametrize("name", KINDS)
def test_a_split_between_like_stages_changes_no_bits(name: str) -> None:
    """NUM-06: the edge carries what flows between blocks."""
    model = TinyModel.make()
    whole, split = (through(chain(model, [KINDS[name]] * stages))[0] for stages in (1, 3))
    assert torch.equal(whole, split)


def test_keys_and_values_are_kept_in_what_is_computed_in() -> None:
    stage = chain(TinyModel.make(), [KINDS["fp16+fp32"]])[0]
    assert {array.dtype for layer in stage.state.layers.values() for array in layer.arrays.values()} == {torch.float16}


def test_logits_are_fp32_wherever_the_head_lies() -> None:
    """In bf16 two logits near 30 are at least an eighth apart."""
    model = TinyModel.make()
    stage = model.stage(Span(3, 3, head=True), dtypes=KINDS["bf16"], inbound=BF16, device=Half(BF16))
    hidden = torch.randn(4, 32, generator=torch.Generator().manual_seed(1)).bfloat16()
    with torch.inference_mode():
        logits = stage._head(hidden)  # type: ignore[misc]
    assert logits.dtype is torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())


@pytest.mark.parametrize("key", ["block.1.down", "head.output", "embed.tokens"])
def test_a_weight_that_overflows_is_named_where_fp16_is_computed(key: str) -> None:
    """LOAD-06."""
    model = TinyModel.make()
    model.weights[key][3, 5] = -1e5
    with pytest.raises(CheckpointError, match=rf"{key} holds 100000, and fp16 ends at 65504.*--dtype bf16"):
        chain(model, [KINDS["fp16"]]), model.stage(Span(3, 3, head=True), dtypes=KINDS["fp16"], device=Half(FP16))
    chain(TinyModel(model.architecture, model.config, model.weights), [KINDS["bf16"]])


def test_what_a_computation_was_prepared_for_is_not_taken_for_another() -> None:
    """The handles of an fp32 run were never checked for fp16."""
    model = TinyModel.make()
    model.weights["block.0.q"][0, 0] = 7e4
    chain(model, [KINDS["fp32"]])
    with pytest.raises(CheckpointError, match=r"block\.0\.q"):
        chain(model, [KINDS["fp16"]])


class Small(HostDevice):
    """Has no memory, and says so as devices do."""

    @contextmanager
    def scope(self):  # type: ignore[no-untyped-def]
        with super().scope():
            yield
            raise OutOfMemory("cpu ran out of memory: 0.0 MB are free")


def test_where_memory_runs_out_what_a_stage_needs_is_said() -> None:
    with pytest.raises(
        OutOfMemory, match=r"blocks 0-1 needs 0\.0 MB for weights, and state of 512 tokens in fp32, but"
    ):
        TinyModel.make().stage(Span(0, 2), device=Small())


def test_a_run_in_another_dtype_lets_go_of_what_was_prepared_before() -> None:
    """Else a node would hold its weights once for every dtype that it was ever asked for."""
    model = TinyModel.make()
    for dtypes in (KINDS["fp32"], KINDS["fp16"]):
        chain(model, [dtypes])
    model.handles.keep_only(set(model.weights), KINDS["fp16"])
    assert model.handles.held("cpu", KINDS["fp32"]) == set()
    assert model.handles.held("cpu", KINDS["fp16"]) == {key for key in model.weights if not key.startswith("head")}
    read = len(model.reads)
    model.stage(Span(0, 3, embed=True), dtypes=KINDS["fp16"], device=Half(FP16))
    assert len(model.reads) == read
    model.stage(Span(0, 3, embed=True))
    assert len(model.reads) > read
