"""Config fields: documented defaults, wrong kinds named, and nothing but `CheckpointError` from any JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster import nn
from truecluster.api import CheckpointError, DType

SMALLEST = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
OTHERS = (
    *("num_key_value_heads", "head_dim", "tie_word_embeddings", "dtype", "torch_dtype", "rms_norm_eps", "hidden_act"),
    *("rope_theta", "rope_scaling", "rope_parameters", "eos_token_id", "layer_types", "quantization_config"),
    *("text_config", "partial_rotary_factor", "original_max_position_embeddings"),
)
RULES = st.sampled_from(["default", "linear", "llama3", "yarn", "factors", "dynamic"])
NAMES = st.sampled_from(["rope_type", "type", "factor", "factors", "rope_theta", "beta_fast", "truncate", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**40) | st.floats() | st.text(max_size=3) | RULES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)


def test_fields_that_are_left_out_have_transformers_defaults():
    """LOAD-12."""
    fields = nn.decoder_fields(SMALLEST)
    assert (fields["kv_heads"], fields["head_dim"], fields["tied"]) == (4, 12, False)
    assert (fields["dtype"], fields["eps"], fields["activation"], fields["eos"]) == (DType.FP32, 1e-6, "silu", ())
    assert nn.decoder_fields({**SMALLEST, **dict.fromkeys(OTHERS)}) == fields


@pytest.mark.parametrize("field", SMALLEST)
def test_an_essential_field_that_is_left_out_is_named(field):
    """LOAD-12."""
    raw = {key: value for key, value in SMALLEST.items() if key != field}
    with pytest.raises(CheckpointError, match=f"{field} is missing"):
        nn.decoder_fields(raw)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from([*SMALLEST, *OTHERS]), VALUES, min_size=1, max_size=4))
def test_any_json_is_read_or_refused(changes: dict[str, Any]):
    try:
        fields = nn.decoder_fields({**SMALLEST, **changes})
    except CheckpointError:
        return
    assert nn.inverse_frequencies(fields["rope"]).isfinite().all()
