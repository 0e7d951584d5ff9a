"""Rules of architectures about what is computed, and in which precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import torch

from truecluster.api import Architecture, CheckpointError, DType, Dtypes, Embed
from truecluster.nn import Batch, attention_factor, inverse_frequencies, tables

from ._architecture import ArchitectureSuite, Model, Variant, close, surplus
from ._network import Network, Sequences
from .rules import require

TOKENS = 40
"""Over a page of sequence state."""
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FEATURES: Mapping[str, Mapping[str, Any]] = {
    "another activation": {"hidden_act": "gelu_pytorch_tanh"},
    "one more activation": {"hidden_act": "relu"},
    "biases in attention": {"attention_bias": True},
    "biases in the MLP": {"mlp_bias": True},
    "linear frequencies": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    "llama3 frequencies": {"rope_parameters": LLAMA3},
    "yarn frequencies": {"rope_parameters": YARN},
    "a part of each head rotated": {"partial_rotary_factor": 0.5},
    "a sliding window": {"sliding_window": 5},
    "a sliding window in use": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    "a sliding layer": {
        "use_sliding_window": True,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}
HALF = (Dtypes(DType.FP16, DType.FP16), Dtypes(DType.BF16, DType.BF16))


class NumberRules(ArchitectureSuite):
    """Against the oracle; in half precision against fp32."""

    features: ClassVar[Mapping[str, Mapping[str, Any]]] = FEATURES
    """Name → fields that change what a model computes; those that the family's config doesn't know are passed over."""

    def test_logits_are_those_of_the_oracle(self, architecture: Architecture, variant: Variant) -> None:
        """A random model's logits are another implementation's within 1e-4, and every tensor has a slot."""

        def check(sizes: dict[str, Any]) -> None:
            fields = {**sizes, **variant.fields}
            model = self.model(architecture, attrs.evolve(variant, fields=fields))
            left = list(surplus(model))
            require(not left, "a slot for every tensor", f"no slot for {', '.join(left)}", config=fields)
            agree(model, TOKENS, config=fields)

        self.for_sizes(architecture, self.examples // (3 if variant.fields else 1) or 1, check)

    def test_a_field_is_honoured_or_refused(self, architecture: Architecture, feature: str) -> None:
        """A field that changes what the model computes is honoured as the oracle does, or refused, never ignored."""
        fields = self.features[feature]
        known = self.known(self.dialect(architecture).model_type, fields)
        if feature in FEATURES and known != fields:
            return  # of other families
        try:
            model = self.model(architecture, Variant(fields))
        except CheckpointError:
            return
        if not list(surplus(model)):  # core refuses a tensor that has no slot
            agree(model, TOKENS, config=fields)

    def test_late_positions_are_those_of_the_oracle(self, architecture: Architecture) -> None:
        """At the end of the context logits are another implementation's within 1e-3."""
        model = self.model(architecture)
        network, ids = model.network(), model.ids(TOKENS)
        start = model.config.context - TOKENS
        late = Sequences(network, [TOKENS], lambda batch: moved(network, batch, start))
        theirs = model.example.logits(ids, start)
        close(late.step((0, 0, ids)), theirs, 1e-3, "the oracle's logits", first_position=start)

    def test_logits_are_fp32(self, architecture: Architecture) -> None:
        """Logits are computed in fp32 when weights and activations are in half precision."""
        model = self.model(architecture)
        for dtypes in HALF:
            logits = Sequences(model.network(dtypes), [TOKENS]).step((0, 0, model.ids(TOKENS)))
            require(logits.dtype == torch.float32, "fp32", logits.dtype, compute=dtypes.compute.value)
            narrow = logits.bfloat16() if dtypes.compute is DType.BF16 else logits.half()
            came = f"all of them are numbers of {dtypes.compute.value}"
            require(not torch.equal(narrow.float(), logits), "logits of fp32's precision", came)

    def test_rotary_tables_are_read_in_fp32(self, architecture: Architecture) -> None:
        """Cosine and sine stay fp32 when weights and activations are in half precision."""
        model = self.model(architecture)
        network = model.network(Dtypes(DType.BF16, DType.FP32))
        if not any(architecture.rotary(model.config, layer) for layer in range(model.config.layers)):
            return
        ids, nudge = model.ids(TOKENS), 1 + 2.0**-10
        plain, nudged = (
            Sequences(network, [TOKENS], lambda batch, by=by: scaled(batch, by)).step((0, 0, ids))  # type: ignore[misc]
            for by in (1.0, nudge)
        )
        expected = "other logits for tables that differ by less than bf16 can tell"
        require(not torch.equal(plain, nudged), expected, "the same logits", tables_times=nudge, compute="bf16")

    def test_half_precision_costs_rounding_only(self, architecture: Architecture) -> None:
        """With hidden values around a thousand, statistics in fp32 keep half precision near fp32."""
        model = self.model(architecture)
        embedding = {slot.key for slot in architecture.slots(model.config, Embed())}
        louder = {key: tensor * 4096 if key in embedding else tensor for key, tensor in model.weights.items()}
        model = attrs.evolve(model, weights=louder)
        ids = model.ids(TOKENS)
        exact = Sequences(model.network(), [TOKENS]).step((0, 0, ids))
        for dtypes in HALF:
            off = (Sequences(model.network(dtypes), [TOKENS]).step((0, 0, ids)) - exact).square().mean().sqrt()
            share = float(off / exact.square().mean().sqrt())
            came = f"off by {share:.3g} of the logits' size"
            require(share < 0.1, "logits off by less than a tenth of their size", came, dtype=dtypes.compute.value)


def agree(model: Model, tokens: int, **inputs: Any) -> None:
    """One step's logits are the oracle's."""
    ids = model.ids(tokens)
    ours = Sequences(model.network(), [tokens]).step((0, 0, ids))
    close(ours, model.example.logits(ids, 0), 1e-4, "the oracle's logits", **inputs)


def moved(network: Network, batch: Batch, start: int) -> Batch:
    """The same step with every token ``start`` positions later; what is attended to is the same."""
    positions = batch.positions + start
    turned = {r: tables(inverse_frequencies(r), positions, attention_factor(r)) for r in batch.tables}
    return attrs.evolve(batch, positions=positions, tables=turned)


def scaled(batch: Batch, by: float) -> Batch:
    """Tables of numbers that bf16 holds, times ``by``."""
    held = {r: (cos.bfloat16().float() * by, sin.bfloat16().float() * by) for r, (cos, sin) in batch.tables.items()}
    return attrs.evolve(batch, tables=held)
