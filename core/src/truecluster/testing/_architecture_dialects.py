"""Rules of architectures about dialects: what the tensors of containers are called, and how they lie in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from truecluster.api import AddConstant, Architecture, Dialect, RotaryRows

from ._architecture import ArchitectureSuite, Model
from ._network import all_slots, bound, source
from ._oracle import library
from ._rules import require


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
