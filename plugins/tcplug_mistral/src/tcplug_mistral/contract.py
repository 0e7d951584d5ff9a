"""What Mistral's models differ in beside their sizes, and what must be refused."""

from __future__ import annotations

from truecluster.testing.architecture import UNSUPPORTED, ArchitectureContract, Variant

VARIANTS = {
    "a window inside a page": Variant({"sliding_window": 5}),
    "a window of one token": Variant({"sliding_window": 1}),
    "a window of a page": Variant({"sliding_window": 32}),
    "no window": Variant({"sliding_window": None}),
    "key/value heads left out": Variant(
        {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 24}, absent=("num_key_value_heads",)
    ),
}
REFUSED = {
    **UNSUPPORTED,
    "a window of nothing": ({"sliding_window": 0}, "sliding_window must be a positive whole number"),
    "a window that is a text": ({"sliding_window": "4096"}, "sliding_window must be a positive whole number"),
}


class TestMistral(ArchitectureContract):
    offer = "mistral"
    required = (*ArchitectureContract.required, "intermediate_size")
    variants = VARIANTS
    unsupported = REFUSED
