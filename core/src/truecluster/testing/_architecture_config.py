"""Rules of architectures about reading a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster.api import Architecture, CheckpointError, DType, ModelConfig

from ._architecture import ArchitectureSuite, Variant
from .rules import Broken, ranging, refusal, require

Refused = tuple[Mapping[str, Any], str]
UNSUPPORTED: Mapping[str, Refused] = {
    "quantized weights": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
    "linear attention": ({"layer_types": ["linear_attention"]}, "linear_attention"),
    "experts": ({"num_local_experts": 8}, "num_local_experts"),
    "unknown frequencies": ({"rope_parameters": {"rope_type": "sundial", "rope_theta": 10000.0}}, "sundial"),
    "an unknown dtype": ({"dtype": "float8_e4m3fn"}, "float8"),
}
NO_COUNT = st.one_of(
    st.sampled_from(["many", "", True, False]),
    st.integers(max_value=0),
    st.floats(allow_nan=True),
    st.lists(st.integers(1, 9), max_size=2),
    st.just({"a": 1}),
)
"""What a positive whole number isn't."""
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.none(), max_size=1),
    st.just({}),
)
CONFIG = Variant({"max_position_embeddings": 777, "eos_token_id": [3, 5]}, said={"dtype": "bfloat16"})
FACTS = tuple(name for name in ModelConfig.__annotations__ if name != "dtype")


class ConfigRules(ArchitectureSuite):
    """A config.json is hostile input."""

    required: ClassVar[tuple[str, ...]] = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    """Fields without which there is no model, each a positive whole number."""
    values: ClassVar[int] = 50
    """Values of a wrong kind that each field is given."""
    unsupported: ClassVar[Mapping[str, Refused]] = UNSUPPORTED
    """Name → fields that must be refused, and a word that the message must contain."""

    def test_a_missing_field_is_named(self, architecture: Architecture, field: str) -> None:
        """A config without a field that there is no model without is refused by the field's name."""
        raw = {name: value for name, value in self.written(architecture)[1].items() if name != field}
        with refusal(CheckpointError, field, without=field):
            architecture.config(raw)

    def test_a_field_of_a_wrong_kind_is_named(self, architecture: Architecture, field: str) -> None:
        """Where a positive whole number belongs, anything else is refused by the field's name."""
        raw = self.written(architecture)[1]

        def check(value: Any) -> None:
            with refusal(CheckpointError, field, **{field: value}):
                architecture.config({**raw, field: value})

        tried(NO_COUNT, self.values, check)

    def test_whatever_a_field_holds_is_read_or_refused(self, architecture: Architecture) -> None:
        """Whatever a field holds, the config is read or refused with CheckpointError, and no other error comes."""
        raw = self.written(architecture)[1]

        def check(field_value: tuple[str, Any]) -> None:
            field, value = field_value
            try:
                architecture.config({**raw, field: value})
            except CheckpointError:
                return
            except Exception as error:
                raise Broken("a config or CheckpointError", error, {field: value}) from error

        optional = sorted(set(raw) - set(self.required))
        tried(st.tuples(st.sampled_from(optional), ANYTHING), len(optional) * self.values // 5, check)

    def test_what_is_not_supported_is_refused(self, architecture: Architecture, refused: str) -> None:
        """What the architecture doesn't have is refused by the config, with a word that says what."""
        changes, word = self.unsupported[refused]
        raw = self.written(architecture)[1]
        with refusal(CheckpointError, word, config=changes):
            architecture.config({**raw, **changes})

    def test_core_is_told_what_the_config_says(self, architecture: Architecture) -> None:
        """Sizes, context, ties, dtype and end tokens reach core as the config.json has them."""
        example, raw = self.written(architecture, CONFIG)
        config = architecture.config(raw)
        for name in FACTS:
            told, said = getattr(config, name), getattr(example.facts, name)
            require(told == said, f"{name} = {said!r}", told)
        require(config.dtype is DType.BF16, "dtype bf16", config.dtype, dtype="bfloat16")


def tried(values: st.SearchStrategy[Any], count: int, check: Any) -> None:
    """Run ``check`` for ``count`` values; a failure is the smallest one's."""
    settings(ranging, max_examples=count)(given(values)(check))()
