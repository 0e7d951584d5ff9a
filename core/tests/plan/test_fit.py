"""How much state a run gets: sizes by hand. A page has 32 tokens; a block 3 elements of state a token, 96 a page."""

from __future__ import annotations

import attrs
import pytest

from truecluster._plan import Measured, Room, fit, wanted_size
from truecluster.api import (
    Block,
    DType,
    Embed,
    Head,
    ModelProfile,
    PartProfile,
    Placement,
    PlanError,
    RequestError,
    Span,
)

PAGE_BYTES = 2 * 96 * 4
"""Of both blocks, in fp32."""
TOY = Measured(
    stateless=ModelProfile(
        name="toy",
        parts=tuple(PartProfile(part=part, wire=10, resident=1000) for part in (Embed(), Block(0), Block(1), Head())),
    ),
    page_elements=(0, 96, 96, 0),
    sequence_bytes=(0, 0, 0, 0),
    compute=DType.FP32,
    context=8192,
    page_tokens=32,
)


def one_node(memory):
    """Both blocks on a node that may use so many bytes."""

    def plan(model):
        if model.needed(Span(0, 2)) > memory:
            raise PlanError("toy doesn't fit")
        return [Placement("a", Span(0, 2))]

    return plan


@pytest.mark.parametrize(
    ("room", "pages", "context"),
    [
        (Room(), 256 + 7 * 32, 8192),
        (Room(sequences=1), 256, 8192),
        (Room(context=100), 8 * 4, 100),
        (Room(context=2000, sequences=3), 63 + 2 * 32, 2000),
        (Room(context=8192, sequences=2), 256 + 32, 8192),
        (Room(kv_bytes=100 * PAGE_BYTES), 100, 3200),
        (Room(kv_bytes=101 * PAGE_BYTES - 1), 100, 3200),
        (Room(kv_bytes=10**12), 8 * 256, 8192),
        (Room(context=64, sequences=2, kv_bytes=3 * PAGE_BYTES), 3, 64),
    ],
)
def test_what_is_aimed_at(room, pages, context):
    """One whole context and 1,024 tokens for every other sequence, or what a budget pays for and can be used."""
    size = wanted_size(TOY, room)
    assert (size.pages, size.sequences, size.context) == (pages, room.sequences, context)


def test_more_context_than_the_model_has_is_refused_naming_both():
    with pytest.raises(RequestError, match="--context 8193 is more than the 8192 tokens that toy has"):
        wanted_size(TOY, Room(context=8193))


@pytest.mark.parametrize(("room", "tokens"), [(Room(), "1,024"), (Room(context=4096), "4,096"), (Room(context=1), "1")])
def test_a_budget_that_holds_no_sensible_context_is_refused_with_what_it_takes(room, tokens):
    pages = -(-int(tokens.replace(",", "")) // 32)
    budget = pages * PAGE_BYTES - 1
    with pytest.raises(PlanError, match=f"is {budget:,} bytes; {tokens} tokens .* need {pages * PAGE_BYTES:,}: give"):
        wanted_size(TOY, attrs.evolve(room, kv_bytes=budget))


def test_sequences_of_fixed_state_are_paid_first():
    recurrent = attrs.evolve(TOY, sequence_bytes=(0, 500, 500, 0))
    assert wanted_size(recurrent, Room(sequences=4, kv_bytes=4000 + 40 * PAGE_BYTES)).pages == 40
    with pytest.raises(PlanError, match=r"4 sequences need 28,576"):
        wanted_size(recurrent, Room(sequences=4, kv_bytes=3999))
    assert recurrent.sized(wanted_size(recurrent, Room(context=32, sequences=4))).parts[1].state == 4 * 96 * 4 + 4 * 500


def test_all_of_it_where_it_fits():
    wanted = 2000 + (256 + 7 * 32) * PAGE_BYTES
    fitted = fit(TOY, Room(), one_node(wanted))
    assert (fitted.size, fitted.reduction) == (fitted.wanted, None)
    assert fitted.model.needed(Span(0, 2)) == wanted
    assert fit(TOY, Room(), one_node(wanted - 1)).size.pages < fitted.size.pages


def test_half_the_state_where_the_compute_dtype_has_half_the_bytes():
    half = attrs.evolve(TOY, compute=DType.FP16)
    assert fit(half, Room(), one_node(10**9)).model.parts[1].state == (256 + 7 * 32) * 96 * 2


def test_attention_takes_workspace_by_the_context():
    attending = attrs.evolve(TOY, attention=lambda tokens: 5 * tokens)
    fitted = fit(attending, Room(context=64, sequences=1), one_node(10**9))
    assert fitted.model.attention == 5 * 64
    assert fitted.model.needed(Span(0, 0, embed=True)) == 1000  # nothing attends where there are no blocks
    reduced = fit(attending, Room(sequences=1), one_node(2000 + 100 * (PAGE_BYTES + 32 * 5)))
    assert 97 <= reduced.size.pages <= 100


@pytest.mark.parametrize("pages", [32, 33, 100, 255, 256, 400, 479])
def test_otherwise_the_most_that_fits_to_two_percent(pages):
    fitted = fit(TOY, Room(), one_node(2000 + (pages + 1) * PAGE_BYTES - 1))
    assert 0.97 * pages <= fitted.size.pages <= pages
    assert fitted.size.context == min(8192, fitted.size.pages * 32)


def test_a_line_says_what_was_reduced():
    context = fit(TOY, Room(), one_node(2000 + 64 * PAGE_BYTES)).reduction
    assert context is not None
    assert context.startswith("context reduced from 8,192 to 2,048 tokens, shared by all sequences")
    others = fit(TOY, Room(), one_node(2000 + 360 * PAGE_BYTES)).reduction
    assert others is not None
    assert others.startswith("state reduced to 7")


def test_not_even_a_small_context_fits():
    with pytest.raises(PlanError, match=r"^with 1,024 tokens of context, toy doesn't fit$"):
        fit(TOY, Room(), one_node(2000 + 32 * PAGE_BYTES - 1))


def test_a_typed_context_is_not_reduced_but_the_one_that_fits_is_named():
    assert fit(TOY, Room(context=6400), one_node(2000 + 200 * PAGE_BYTES)).size.context == 6400
    with pytest.raises(PlanError, match=r"^with 6,432 tokens of context, toy doesn't fit; --context 6\d\d\d fits$"):
        fit(TOY, Room(context=6432), one_node(2000 + 200 * PAGE_BYTES))
