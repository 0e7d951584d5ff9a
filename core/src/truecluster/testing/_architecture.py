"""What the suite of architectures asks of its subclass, and what its methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster.api import Architecture, Dialect, Dtypes

from ._contract import Contract, Installed
from ._missing import missing
from ._network import FP32, Network, all_slots, bound, source
from ._oracle import Example, fields_of, random_model
from .rules import ranging, require

PLAIN = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "pad_token_id": None,
}
"""What the models differ from; fields that a family doesn't know are left out."""

LEAST = 8
"""Hidden size: a norm over fewer numbers makes much of rounding."""


@attrs.frozen
class Variant:
    """How models of a family differ: ``fields`` of transformers' config class.

    The config.json may say the same in other words: ``said`` are fields that it has besides, ``absent`` those that it
    leaves out.
    """

    fields: Mapping[str, Any] = attrs.field(factory=dict)
    said: Mapping[str, Any] = attrs.field(factory=dict)
    absent: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False)
class Model:
    """An example as the architecture under test reads it; ``weights`` by slot, fp32."""

    architecture: Architecture
    dialect: Dialect
    example: Example
    raw: Mapping[str, Any]
    config: Any
    weights: Mapping[str, torch.Tensor]

    def network(self, dtypes: Dtypes = FP32) -> Network:
        """Lowered to the reference."""
        return Network(self.architecture, self.config, self.weights, dtypes)

    def ids(self, count: int, seed: int = 1) -> torch.Tensor:
        """Random tokens ``[count]`` int64."""
        return torch.randint(0, self.config.vocab, (count,), generator=torch.Generator().manual_seed(seed))


class ArchitectureSuite(Contract):
    """Models come from transformers where it knows the model type; else override `example`."""

    KIND = "architecture"
    container: ClassVar[str] = "huggingface"
    """Whose dialect binds the examples."""
    model_type: ClassVar[str] = ""
    """Which model type is tested: where empty, the first of the offer's that transformers knows."""
    variants: ClassVar[Mapping[str, Variant]] = {}
    """Name → a way in which models of the family differ, beyond sizes, that the architecture has."""
    examples: ClassVar[int] = 30
    """Random sizes tried with no variant; with each variant a third."""

    @pytest.fixture
    def architecture(self, installed: Installed) -> Architecture:
        """The architecture under test."""
        return installed.target()  # type: ignore[no-any-return]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test per variant, and per entry of what the subclass names."""
        if "variant" in metafunc.fixturenames:
            every = {"plain": Variant(), **self.variants}
            metafunc.parametrize("variant", list(every.values()), ids=list(every))
        for name, field in (("feature", "features"), ("refused", "unsupported"), ("field", "required")):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, list(getattr(self, field)))

    def example(self, model_type: str, fields: Mapping[str, Any]) -> Example:
        """A tiny model whose config.json has these fields; the same each time."""
        if not fields_of(model_type):
            raise missing(self, "example(model_type, fields)", f"transformers knows no model type {model_type!r}")
        return random_model(model_type, fields)

    def known(self, model_type: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Those fields that models of the family have."""
        return {name: value for name, value in fields.items() if name in fields_of(model_type)}

    def dialect(self, architecture: Architecture) -> Dialect:
        """The one that binds the examples."""
        fitting = [d for d in architecture.dialects if d.container == self.container]
        wanted = [d for d in fitting if d.model_type == self.model_type]
        if not self.model_type:
            wanted = [d for d in fitting if self.known(d.model_type, PLAIN)]
        if not wanted:
            has = ", ".join(d.model_type for d in fitting) or "none"
            what = f"the model type of a {self.container} dialect of the architecture, which has {has}"
            raise missing(self, "model_type", f"{what}; where transformers doesn't know it, known and example too")
        return wanted[0]

    def written(self, architecture: Architecture, variant: Variant | None = None) -> tuple[Example, dict[str, Any]]:
        """An example, and its config as core hands it over: what the container leaves out comes from the dialect."""
        dialect, variant = self.dialect(architecture), variant or Variant()
        plain = self.known(dialect.model_type, PLAIN)
        example = self.example(dialect.model_type, {**plain, **variant.fields})
        said = {k: v for k, v in {**example.raw, **variant.said}.items() if v is not None and k not in variant.absent}
        return example, {**dialect.defaults, **said}

    def model(self, architecture: Architecture, variant: Variant | None = None) -> Model:
        """Raises `CheckpointError` where its config is refused, `Broken` where slots and tensors don't fit."""
        example, raw = self.written(architecture, variant)
        dialect, config = self.dialect(architecture), architecture.config(raw)
        slots = all_slots(architecture, config)
        weights = bound(slots, dialect, example.tensors, raw)
        return Model(
            architecture=architecture, dialect=dialect, example=example, raw=raw, config=config, weights=weights
        )

    def for_sizes(self, architecture: Architecture, count: int, check: Callable[[dict[str, Any]], None]) -> None:
        """Run ``check`` for ``count`` random sizes of models; a failure is the smallest one's."""
        model_type = self.dialect(architecture).model_type
        wide = bool(self.known(model_type, {"head_dim": 0}))
        sizes = decoder_sizes(wide).map(lambda fields: self.known(model_type, fields))
        settings(ranging, max_examples=count)(given(sizes)(check))()


@st.composite
def decoder_sizes(draw: st.DrawFn, own_head_dim: bool) -> dict[str, Any]:
    """Fields of a tiny decoder's config. Without ``own_head_dim`` the heads make up the hidden size."""
    kv_heads, shared = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    heads, head_dim = kv_heads * shared, 2 * draw(st.integers(2, 6))
    each = st.integers(-(-LEAST // heads), 12 // shared)
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": heads * (draw(each) if own_head_dim else head_dim),
        "intermediate_size": draw(st.integers(1, 48)),
        "num_hidden_layers": draw(st.integers(1, 4)),
        "vocab_size": draw(st.integers(7, 130)),
        "tie_word_embeddings": draw(st.booleans()),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-2])),
        "rope_parameters": {"rope_type": "default", "rope_theta": draw(st.sampled_from([1e4, 50.0, 1e6]))},
    }


def close(ours: torch.Tensor, theirs: torch.Tensor, within: float, expected: str, **inputs: Any) -> None:
    """Logits ``[n, vocab]`` that differ by at most ``within``, or by a tenth of it relative to the larger ones."""
    require(ours.shape == theirs.shape, f"logits of shape {tuple(theirs.shape)}", tuple(ours.shape), **inputs)
    far = (ours - theirs).abs() - theirs.abs() * within / 10
    worst = int(far.nan_to_num(torch.inf).flatten().argmax())
    row = worst // ours.shape[1]
    came = f"a logit of token {row} is {ours.flatten()[worst]:.6g} instead of {theirs.flatten()[worst]:.6g}"
    require(bool(far.flatten()[worst] <= within), f"{expected} within {within:g}", came, **inputs)


def surplus(model: Model) -> Iterator[str]:
    """Tensors of the example that no slot is made of."""
    used = {source(model.dialect, slot.key)[1] for slot in all_slots(model.architecture, model.config)}
    output = model.dialect.slots.get("head.output")
    tied = {f"{output}.weight"} if model.config.tied else set()
    yield from sorted(set(model.example.tensors) - used - tied)
