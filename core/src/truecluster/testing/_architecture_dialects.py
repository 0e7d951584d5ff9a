"""Rules of architectures about dialects: what the tensors of containers are called, and how they lie in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch

from truecluster.api import AddConstant, Architecture, Dialect, RotaryRows

from ._architecture import ArchitectureSuite, Model, Variant
from ._network import all_slots, bound, source
from ._oracle import library
from .rules import require

UNUSUAL = {
    "rms_norm_eps": 1e-3,
    "eos_token_id": 3,
    "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
}
"""Where a key that is passed over would show."""


class DialectRules(ArchitectureSuite):
    """The same slots, whatever the container."""

    def test_every_dialect_has_every_slot(self, architecture: Architecture) -> None:
        """Each dialect names a tensor for every slot, no tensor twice, and transforms only what it names."""
        model = self.model(architecture)
        slots = all_slots(architecture, model.config)
        for dialect in architecture.dialects:
            for slot in slots:
                source(dialect, slot.key)
            which = f"{dialect.container}/{dialect.model_type}"
            stray = sorted(set(dialect.transforms) - set(dialect.slots))
            require(not stray, "transforms of slots that the dialect names", ", ".join(stray), dialect=which)

    def test_gguf_holds_the_same_slots(self, architecture: Architecture) -> None:
        """A GGUF dialect makes of what llama.cpp's converter writes the slots that the other dialect makes."""
        model = self.model(architecture)
        slots = all_slots(architecture, model.config)
        for dialect in architecture.dialects:
            names = converter_names(dialect, model.config.layers)
            if names is not None:
                found = bound(slots, dialect, converted(model, dialect, names), model.raw)
                for key, tensor in found.items():
                    _, name = source(dialect, key)
                    same = torch.equal(tensor, model.weights[key])
                    require(same, f"{key} as from {model.dialect.container}", "other values", tensor=name)

    def test_gguf_keys_say_the_same_config(self, architecture: Architecture) -> None:
        """A GGUF dialect reads the other dialect's config from the keys that llama.cpp's converter writes."""
        model_type = self.dialect(architecture).model_type
        for dialect in architecture.dialects:
            if (dialect.container, dialect.model_type) != ("gguf", model_type):
                continue
            model = self.model(architecture, Variant(self.known(model_type, UNUSUAL)))
            keys = converter_keys(model, model_type)
            read = {dialect.keys[key]: value for key, value in keys.items() if key in dialect.keys}
            config = architecture.config({**dialect.defaults, **read})
            for name, value in attrs.asdict(model.config, recurse=False).items():
                require(getattr(config, name) == value, f"{name} = {value!r}", getattr(config, name), keys=keys)


def converter_keys(model: Model, family: str) -> dict[str, Any]:
    """The keys of the example that the GGUF specification knows, and two that a checkpoint adds of what it holds."""
    keys, raw = library("gguf", "comparing a GGUF dialect with llama.cpp's keys").Keys, model.raw
    heads = raw["num_attention_heads"]
    head_dim = raw.get("head_dim", raw["hidden_size"] // heads)
    found = {
        keys.LLM.BLOCK_COUNT: raw["num_hidden_layers"],
        keys.LLM.CONTEXT_LENGTH: raw["max_position_embeddings"],
        keys.LLM.EMBEDDING_LENGTH: raw["hidden_size"],
        keys.LLM.FEED_FORWARD_LENGTH: raw["intermediate_size"],
        keys.Attention.HEAD_COUNT: heads,
        keys.Attention.HEAD_COUNT_KV: raw.get("num_key_value_heads", heads),
        keys.Attention.KEY_LENGTH: head_dim,
        keys.Attention.LAYERNORM_RMS_EPS: raw["rms_norm_eps"],
        keys.Rope.DIMENSION_COUNT: head_dim,
        keys.Rope.FREQ_BASE: raw["rope_parameters"]["rope_theta"],
        keys.Tokenizer.EOS_ID: raw["eos_token_id"],
        "tokenizer.ggml.tokens.count": raw["vocab_size"],
        "tensors.dtype": "float32",
    }
    return {key.format(arch=family): value for key, value in found.items()}


def converter_names(dialect: Dialect, layers: int) -> Any:
    """The converter's table of names; None where it doesn't write the dialect."""
    if dialect.container != "gguf":
        return None
    gguf = library("gguf", "comparing a GGUF dialect with llama.cpp's names")
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(kinds[dialect.model_type], layers) if dialect.model_type in kinds else None


def converted(model: Model, dialect: Dialect, names: Any) -> Mapping[str, torch.Tensor]:
    """The example's tensors as llama.cpp's converter writes them for a family of the dialect's row order.

    It bakes in what a reader of the original adds, and turns the rows of q and k of the families that rotate pairs
    (``LlamaModel.permute`` of convert_hf_to_gguf.py).
    """
    made = {}
    turned = any(isinstance(step, RotaryRows) for steps in dialect.transforms.values() for step in steps)
    for slot in all_slots(model.architecture, model.config):
        pattern, name = source(model.dialect, slot.key)
        tensor = model.example.tensors[name]
        for step in model.dialect.transforms.get(pattern, ()):
            tensor = tensor + step.value if isinstance(step, AddConstant) else tensor
        if turned and pattern in ("block.*.q", "block.*.k"):
            heads = model.raw["num_attention_heads" if pattern == "block.*.q" else "num_key_value_heads"]
            tensor = tensor.reshape(heads, 2, -1, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)
        made[names.get_name(name, try_suffixes=(".weight", ".bias"))] = tensor.float()
    return made
