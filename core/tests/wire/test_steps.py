"""Step headers: a layout derived by hand, the rules, and hostile bytes."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader, StepLimits, decode, encode
from truecluster.api import DType, EdgeBroken

DECODE = StepHeader(
    kind=Kind.RUN_DECODE,
    run=7,
    step=9,
    count=3,
    width=896,
    dtype=DType.FP32,
    rows=(Row(1, 100, 1, 1, 5), Row(2, 0, 2, 0)),
    opened=(Opened(2, 32),),
    pages=(Page(2, 17), Page(2, 18)),
    released=(0,),
)


def _by_hand(**changes: int) -> bytes:
    """A RUN_DECODE of one token, built without the code under test: kind, dtype, flags, width, run, step, counts."""
    fixed = {"kind": 2, "dtype": 0, "flags": 0, "width": 896, "run": 7, "step": 9, "count": 1}
    tables = {"rows": 1, "opened": 0, "pages": 0, "released": 0}
    row = {"sequence": 1, "position": 100, "n_tokens": 1, "n_logits": 1, "sample": 5}
    for part in (fixed, tables, row):
        part.update({key: value for key, value in changes.items() if key in part})
    return (
        struct.pack("<BBBx", fixed["kind"], fixed["dtype"], fixed["flags"])
        + struct.pack("<IQQI", fixed["width"], fixed["run"], fixed["step"], fixed["count"])
        + struct.pack("<4I", *tables.values())
        + struct.pack("<5i", *row.values())
    )


def test_the_layout_is_the_documented_one() -> None:
    header = decode(_by_hand())
    assert header.rows == ((1, 100, 1, 1, 5),)
    assert (header.kind, header.run, header.step, header.width, header.dtype) == (2, 7, 9, 896, DType.FP32)
    assert encode(header) == _by_hand()


def test_a_byte_that_means_nothing_is_zero() -> None:
    data = bytearray(_by_hand())
    data[3] = 1
    with pytest.raises(EdgeBroken, match="flags 256"):
        decode(bytes(data))


def test_a_header_comes_back_as_it_was() -> None:
    assert decode(encode(DECODE)) == DECODE


@pytest.mark.parametrize(
    ("header", "payload"),
    [
        (DECODE, ((DType.FP32, (3, 896)),)),
        (StepHeader(kind=Kind.RUN_PREFILL, run=1, step=1, count=2, rows=(Row(0, 0, 2, 1),)), ((DType.INT32, (2,)),)),
        (StepHeader(kind=Kind.TOKEN, run=1, step=1, count=4), ((DType.INT32, (4,)),)),
        (
            StepHeader(kind=Kind.TOKEN, run=1, step=1, count=4, logprobs=True),
            ((DType.INT32, (4,)), (DType.FP32, (4, 1))),
        ),
        (
            StepHeader(kind=Kind.TOKEN, run=1, step=1, count=4, logprobs=True, width=3),
            ((DType.INT32, (4,)), (DType.FP32, (4, 4)), (DType.INT32, (4, 3))),
        ),
        (
            StepHeader(kind=Kind.HIDDEN_STATE, run=1, step=1, count=1, width=8, dtype=DType.BF16),
            ((DType.BF16, (1, 8)),),
        ),
        (StepHeader(kind=Kind.RUN_DECODE, run=1, step=1, count=0, released=(3,)), ((DType.INT32, (0,)),)),
    ],
)
def test_the_payload_is_what_the_header_says(header: StepHeader, payload: object) -> None:
    assert decode(encode(header)).payload() == payload


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 0},
        {"kind": 5},
        {"dtype": 4},
        {"dtype": 3},
        {"flags": 1},
        {"flags": 2},
        {"width": 0},
        {"width": 2**32 - 1},
        {"count": 0},
        {"count": 2},
        {"count": 2**32 - 1},
        {"rows": 0},
        {"rows": 2},
        {"rows": 2**32 - 1},
        {"opened": 1},
        {"pages": 2**32 - 1},
        {"released": 2**31},
        {"sequence": -1},
        {"position": -1},
        {"position": 2**31 - 1},
        {"n_tokens": 0},
        {"n_tokens": 2},
        {"n_tokens": -1},
        {"n_logits": 2},
        {"n_logits": -1},
        {"sample": -1},
    ],
    ids=str,
)
def test_a_header_that_contradicts_itself_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(EdgeBroken):
        decode(_by_hand(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": (Row(1, 0, 1, 1), Row(1, 1, 2, 0))},
        {"opened": (Opened(4), Opened(4))},
        {"pages": (Page(1, 6), Page(1, 6))},
        {"released": (3, 3)},
        {"kind": Kind.TOKEN},
        {"logprobs": True},
        {"kind": Kind.HIDDEN_STATE},
    ],
    ids=str,
)
def test_doubles_and_answers_of_another_size_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(EdgeBroken):
        decode(encode(attrs.evolve(DECODE, **changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 21},
        {"width": 2**32 - 1},
        {"logprobs": False, "width": 3},
        {"dtype": DType.FP32},
        {"kind": Kind.RUN_DECODE},
        {"kind": Kind.HIDDEN_STATE, "dtype": DType.FP32},
    ],
    ids=str,
)
def test_only_an_answer_of_tokens_has_log_probabilities_of_at_most_20_others(changes: dict[str, object]) -> None:
    told = StepHeader(kind=Kind.TOKEN, run=1, step=1, count=4, logprobs=True, width=20)
    assert decode(encode(told)) == told
    with pytest.raises(EdgeBroken):
        decode(encode(attrs.evolve(told, **changes)))


@pytest.mark.parametrize("limits", [StepLimits(rows=1), StepLimits(tokens=2), StepLimits(pages=1), StepLimits(width=8)])
def test_a_stage_can_set_lower_limits(limits: StepLimits) -> None:
    with pytest.raises(EdgeBroken, match="at most"):
        decode(encode(DECODE), limits)


def test_truncated_and_trailing_bytes_are_refused() -> None:
    data = encode(DECODE)
    for size in range(len(data)):
        with pytest.raises(EdgeBroken):
            decode(data[:size])
    with pytest.raises(EdgeBroken):
        decode(data + b"\0")


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.binary(min_size=44, max_size=44)))
def test_any_bytes_give_a_header_or_the_one_error(data: bytes) -> None:
    try:
        header = decode(data)
    except EdgeBroken:
        return
    assert encode(header) == data


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 100), st.binary(min_size=1, max_size=4))
def test_a_damaged_header_gives_a_header_or_the_one_error(at: int, damage: bytes) -> None:
    data = encode(DECODE)
    damaged = (data[:at] + damage + data[at + len(damage) :])[: len(data)]
    try:
        header = decode(damaged)
    except EdgeBroken:
        return
    assert decode(encode(header)) == header
