"""Architectures that are wrong in one way each, built on one that is right, and what the suite says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pytest
import torch
from doubles import Double
from tiny_models import TinyDecoder
from toy_family import FIELDS, Toy, toy_example

from truecluster import api, nn
from truecluster.testing._missing import Missing
from truecluster.testing._oracle import library
from truecluster.testing.architecture import FEATURES, ArchitectureContract, Variant

SUITE = ArchitectureContract
FROM_LLAMA = api.Dialect(container="huggingface", model_type="llama", slots=nn.HUGGINGFACE_SLOTS)
FROM_GGUF = nn.gguf_dialect("llama", rotated_pairs=True)


class Right(TinyDecoder):
    """Llama without biases, with two dialects."""

    dialects = (FROM_LLAMA, FROM_GGUF)


@attrs.frozen(cache_hash=True)
class Around(api.Description):
    """Attention that sees another batch."""

    inner: nn.Attention

    def forward(self, x: torch.Tensor, batch: nn.Batch, state: nn.PagedState) -> torch.Tensor:
        positions = self.positions(batch, state)
        if torch.equal(positions, batch.positions):
            return self.inner(x, batch, state)
        turned = {r: nn.tables(nn.inverse_frequencies(r), positions) for r in batch.tables}
        return self.inner(x, attrs.evolve(batch, tables=turned), state)

    def positions(self, batch: nn.Batch, state: nn.PagedState) -> torch.Tensor:
        return batch.positions


def each(batch: nn.Batch, start: Any) -> torch.Tensor:
    """``start(row, count, position)`` of each row, counted on over its tokens."""
    rows = enumerate(batch.rows.tolist())
    return torch.cat([torch.arange(count) + start(i, count, position) for i, (_, count, position, _) in rows])


class Late(Around):
    """Positions in bf16 from 2,048 on."""

    def positions(self, batch, state):
        return torch.where(batch.positions < 2048, batch.positions, batch.positions.bfloat16()).float()


class StepCounted(Around):
    """Counts positions over a whole step."""

    def positions(self, batch, state):
        return torch.arange(len(batch.positions)) + batch.positions[0]


class OffByOne(Around):
    """Is a position behind in every step but a sequence's first."""

    def positions(self, batch, state):
        return each(batch, lambda row, count, position: max(position - 1, 0))


class Counting(Around):
    """Counts the tokens that it has seen itself, and so goes on behind what was truncated."""

    def positions(self, batch, state):
        def start(row, count, position):
            seen = state.arrays["seen"][int(batch.pages[row, 0]), 0]
            first = int(seen) if position else 0
            seen[:] = first + count
            return first

        return each(batch, start)


@attrs.frozen(cache_hash=True)
class Unset(api.Description):
    """Takes the first page's memory for zero."""

    inner: nn.Attention

    def forward(self, x: torch.Tensor, batch: nn.Batch, state: nn.PagedState) -> torch.Tensor:
        first, seen = batch.rows[:, 2] == 0, state.arrays["seen"][batch.pages[:, 0].long(), 0]
        x = x * (1 + float(seen[first].sum()))
        state.arrays["seen"][batch.pages[:, 0].long(), 0] = 1
        return self.inner(x, batch, state)


@attrs.frozen(cache_hash=True)
class HalfTables(api.Description):
    """Cosine and sine in the dtype of the keys."""

    inner: nn.Attention

    def forward(self, x: torch.Tensor, batch: nn.Batch, state: nn.PagedState) -> torch.Tensor:
        dtype = state.arrays["k"].dtype
        held = {r: tuple(table.to(dtype).float() for table in both) for r, both in batch.tables.items()}
        return self.inner(x, attrs.evolve(batch, tables=held), state)


@attrs.frozen(cache_hash=True)
class Neighbourly(api.Description):
    """What one sequence attends to reaches the others of its step."""

    inner: nn.Attend

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: nn.Batch, state: Any) -> torch.Tensor:
        mixed = self.inner(q, k, v, batch, state)
        return mixed if len(batch.rows) == 1 else mixed + mixed.mean(0)


@attrs.frozen(cache_hash=True)
class Squaring(api.Description):
    """A norm that squares in the dtype of the residual."""

    norm: nn.Norm

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.norm(hidden + 0 * hidden.square())


@attrs.frozen(cache_hash=True)
class Interleaved(api.Description):
    """Query head h reads key head ``h % kv_heads``."""

    inner: nn.Attend

    def forward(self, q: torch.Tensor, *rest: Any) -> torch.Tensor:
        heads, shared = q.shape[1], q.shape[1] // rest[0].shape[1]
        order = torch.arange(heads).view(shared, -1).T.flatten()
        return self.inner(q[:, order], *rest)[:, order.argsort()]


class Unequal(nn.DecoderBlock):
    """Equal to itself only."""

    __eq__, __hash__ = object.__eq__, object.__hash__


class Changed(Right):
    """The right one with each block changed by ``block``."""

    def build(self, config, part):
        made = super().build(config, part)
        return self.block(made) if isinstance(part, api.Block) else made

    def state(self, config, layer):
        return api.Paged({**super().state(config, layer).arrays, "seen": (1,)})


def attending(wrong: type) -> type[api.Architecture]:
    """With ``wrong`` around the attention of each block."""
    return type(
        wrong.__name__,
        (Changed,),
        {"block": lambda self, made: attrs.evolve(made, attention=wrong(made.attention))},
    )


class HalfStatistics(Changed):
    def block(self, made):
        return attrs.evolve(made, attention_norm=Squaring(made.attention_norm))


class WrongHeads(Changed):
    attend = Interleaved

    def block(self, made):
        attend = self.attend(made.attention.attend)
        return attrs.evolve(made, attention=attrs.evolve(made.attention, attend=attend))


class WrongRows(WrongHeads):
    attend = Neighbourly


class Incomparable(Changed):
    def block(self, made):
        return Unequal(made.attention_norm, made.attention, made.mlp_norm, made.mlp)


class HalfLogits(Right):
    """The output matrix is a linear like any other."""

    def build(self, config, part):
        made = super().build(config, part)
        if not isinstance(part, api.Head) or config.tied:
            return made
        return attrs.evolve(made, output=nn.Linear(attrs.evolve(made.output.weight, role=api.Role.LINEAR)))


class TwoEnds(Right):
    """Tied ends are read twice, by two names."""

    dialects = tuple(
        attrs.evolve(d, slots={**d.slots, "head.tied": d.slots["embed.tokens"]}) for d in (FROM_LLAMA, FROM_GGUF)
    )

    def build(self, config, part):
        made = super().build(config, part)
        if not isinstance(part, api.Head) or not config.tied:
            return made
        return attrs.evolve(made, output=nn.Linear(attrs.evolve(made.output.weight, key="head.tied")))


class Holding(Right):
    def __init__(self):
        self.table = torch.zeros(3)


class Empty(Right):
    """A state that has an array of nothing."""

    def state(self, config, layer):
        return api.Paged({**super().state(config, layer).arrays, "spare": (0,)})


class Reading(Right):
    """Reads a config that ``changed`` has changed."""

    def config(self, raw):
        return super().config(self.changed(dict(raw)))


class Deaf(Reading):
    def changed(self, raw):
        return {**raw, "hidden_act": "silu"}


class Blind(Reading):
    def changed(self, raw):
        return {**raw, "quantization_config": None}


class Guessing(Reading):
    def changed(self, raw):
        return {"num_attention_heads": 4, **raw}


class Lenient(Reading):
    def changed(self, raw):
        return {**raw, "vocab_size": int(raw["vocab_size"])} if raw.get("vocab_size") is True else raw


class Trusting(Reading):
    def changed(self, raw):
        return {**raw, "rms_norm_eps": float(raw.get("rms_norm_eps", 1e-6))}


class FixedEps(Right):
    def config(self, raw):
        return attrs.evolve(super().config(raw), eps=1e-6)


class FixedBase(Right):
    def config(self, raw):
        config = super().config(raw)
        return attrs.evolve(config, rope=attrs.evolve(config.rope, theta=10000.0))


class SizedHeads(Reading):
    """Heads make up the hidden size."""

    def changed(self, raw):
        return {**raw, "head_dim": raw["hidden_size"] // raw["num_attention_heads"]}


class Short(Right):
    """A context that the config doesn't have."""

    def config(self, raw):
        config = super().config(raw)
        return attrs.evolve(config, context=min(config.context, 32768) // 2)


def without(slots: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: tensor for key, tensor in slots.items() if key != name}


class Gapped(Right):
    """A dialect lacks a slot."""

    other = api.Dialect(container="other", model_type="llama", slots=without(nn.HUGGINGFACE_SLOTS, "head.norm"))
    dialects = (*Right.dialects, other)


class Swapped(Right):
    """Takes gate for up in GGUF."""

    gate, up = nn.GGUF_SLOTS["block.*.gate"], nn.GGUF_SLOTS["block.*.up"]
    swapped = attrs.evolve(FROM_GGUF, slots={**nn.GGUF_SLOTS, "block.*.gate": up, "block.*.up": gate})
    dialects = (FROM_LLAMA, swapped)


class KeyForgotten(Right):
    """Takes the usual base whatever a GGUF says."""

    dialects = (FROM_LLAMA, attrs.evolve(FROM_GGUF, keys=without(FROM_GGUF.keys, "llama.rope.freq_base")))


class OneCount(Right):
    """Takes the keys of a GGUF for rows of as many heads as there are queries."""

    turned = (api.RotaryRows("num_attention_heads"),)
    dialects = (FROM_LLAMA, attrs.evolve(FROM_GGUF, transforms={"block.*.q": turned, "block.*.k": turned}))


class _Suite(ArchitectureContract):
    made: type[api.Architecture] = Right
    examples = 12
    values = 10
    required = ("vocab_size", "num_attention_heads")
    features = MappingProxyType({name: FEATURES[name] for name in ("another activation", "yarn frequencies")})
    unsupported = MappingProxyType({"quantized weights": ArchitectureContract.unsupported["quantized weights"]})

    @pytest.fixture
    def architecture(self):
        return self.made()


def suite(made: type[api.Architecture]) -> type[ArchitectureContract]:
    """A class of this module, so that a nested run finds it."""
    name = f"SuiteOf{made.__name__}"
    globals()[name] = type(name, (_Suite,), {"made": made, "__module__": __name__})
    return globals()[name]


class SuiteOfToy(_Suite):
    """Of a family that transformers doesn't know."""

    made = Toy
    model_type = "toy"
    required = ("vocab_size", "num_hidden_layers")
    features = MappingProxyType({})
    unsupported = MappingProxyType({"another dtype": ({"dtype": "float8_e4m3fn"}, "dtype")})

    def known(self, model_type, fields):
        return {name: value for name, value in fields.items() if name in FIELDS}

    def example(self, model_type, fields):
        return toy_example(fields)


RIGHT = [suite(Right), SuiteOfToy]
DOUBLES = {
    "test_logits_are_those_of_the_oracle": Double(
        suite(FixedBase),
        r"the oracle's logits within 0\.0001\ncame: a logit of token .*\nconfig: .*'rope_theta': 50\.0",
    ),
    "test_a_field_is_honoured_or_refused": Double(suite(Deaf), r"config: \{'hidden_act': 'gelu_pytorch_tanh'\}"),
    "test_late_positions_are_those_of_the_oracle": Double(suite(attending(Late)), "first_position: 32728"),
    "test_logits_are_fp32": Double(suite(HalfLogits), r"fp32's precision\ncame: all of them are numbers of fp16"),
    "test_rotary_tables_are_read_in_fp32": Double(suite(attending(HalfTables)), "differ by less than bf16 can tell"),
    "test_half_precision_costs_rounding_only": Double(suite(HalfStatistics), "off by nan .*\ndtype: fp16"),
    "test_chunks_are_as_one_step": Double(
        suite(attending(OffByOne)), r"the logits of one step .*\n.*\ntokens_of_each_step: \(41, 1, 1, 30\)"
    ),
    "test_sequences_of_a_step_are_as_alone": Double(
        suite(attending(StepCounted)), r"the sequence alone .*\n.*\ntokens_of_each_step: .*\nbeside: \[\("
    ),
    "test_truncation_leaves_no_trace": Double(suite(attending(Counting)), r"without what was cut off .*\n.*\nkept: 37"),
    "test_a_new_sequence_finds_nothing_in_used_pages": Double(suite(attending(Unset)), "the logits in fresh pages"),
    "test_every_dialect_has_every_slot": Double(
        suite(Gapped), r"a tensor for slot head\.norm in the dialect other/llama"
    ),
    "test_gguf_holds_the_same_slots": Double(
        suite(Swapped), r"block\.0\.gate as from huggingface\n.*\ntensor: blk\.0\.ffn_up\.weight"
    ),
    "test_gguf_keys_say_the_same_config": Double(
        suite(KeyForgotten), r"expected: rope = Rotary\(dim=8, theta=77.0.*\ncame: Rotary\(dim=8, theta=10000\.0"
    ),
    "test_a_missing_field_is_named": Double(suite(Guessing), r"came: nothing was raised\nwithout: num_attention_heads"),
    "test_a_field_of_a_wrong_kind_is_named": Double(suite(Lenient), r"came: nothing was raised\nvocab_size: True"),
    "test_whatever_a_field_holds_is_read_or_refused": Double(
        suite(Trusting), r"a config or CheckpointError\ncame: TypeError\(.*\nrms_norm_eps: None"
    ),
    "test_what_is_not_supported_is_refused": Double(suite(Blind), "came: nothing was raised\nconfig: .*gptq"),
    "test_core_is_told_what_the_config_says": Double(suite(Short), "expected: context = 777\ncame: 388"),
    "test_descriptions_are_equal_each_time": Double(
        suite(Incomparable), r"equal hashes\ncame: Unequal(.|\n)*part: block\.0"
    ),
    "test_no_tensor_is_held": Double(suite(Holding), "expected: no tensor\ncame: 1 of them\nheld_by: Holding"),
    "test_tied_ends_are_one_slot": Double(
        suite(TwoEnds), r"one slot of both\ncame: \['embed.tokens'\] and \['head.norm', 'head.tied'\]"
    ),
    "test_every_layer_has_a_state_and_may_have_a_rotary": Double(suite(Empty), r"every size above 0\n.*\nlayer: 0"),
}
MORE = {
    suite(FixedEps): ("test_logits_are_those_of_the_oracle", r"'rms_norm_eps': 0\.01"),
    suite(WrongRows): ("test_sequences_of_a_step_are_as_alone", "the logits of the sequence alone"),
    suite(OneCount): ("test_gguf_holds_the_same_slots", r"block\.0\.k as from huggingface"),
}


@pytest.mark.parametrize("wrong", MORE, ids=lambda wrong: wrong.__name__)
def test_more_that_one_rule_alone_catches(verdict, wrong):
    name, says = MORE[wrong]
    caught = verdict(wrong)
    assert list(caught) == [name]
    assert re.search(says, caught[name]), caught


@pytest.mark.parametrize("wrong", [suite(SizedHeads), suite(WrongHeads)], ids=lambda wrong: wrong.__name__)
def test_what_is_wrong_in_every_model_is_caught_by_the_oracle(failures, wrong):
    name = "test_logits_are_those_of_the_oracle"
    assert failures(wrong, name) == {name}


class SuiteOfVariant(_Suite):
    variants = MappingProxyType({"two layers": Variant({"num_hidden_layers": 2}, absent=("hidden_act",))})


def test_a_variant_is_run(verdict):
    assert verdict(SuiteOfVariant, "test_logits_are_those_of_the_oracle") == {}


class SuiteOfUnknown(_Suite):
    model_type = "nobody-knows"


def test_a_model_type_without_a_dialect_is_said_to_be_missing(verdict):
    says = "must give model_type: the model type of a huggingface dialect of the architecture, which has llama; where"
    assert all(says in said for said in verdict(SuiteOfUnknown).values())


def test_a_library_that_only_checking_needs_is_asked_for_by_name():
    with pytest.raises(Missing, match="comparing needs no_such_library: run python -m pip install no_such"):
        library("no_such_library", "comparing")
