"""The contract of architectures. Needs transformers where models come from it, and gguf for a GGUF dialect."""

from __future__ import annotations

from typing import Any

import attrs
import torch

from truecluster.api import Architecture, Description, Paged, Recurrent, Rotary

from ._architecture import Variant
from ._architecture_config import UNSUPPORTED, ConfigRules
from ._architecture_dialects import DialectRules
from ._architecture_numbers import FEATURES, NumberRules
from ._architecture_steps import StepRules
from ._network import parts
from ._oracle import Example
from .rules import require

__all__ = ["FEATURES", "UNSUPPORTED", "ArchitectureContract", "Example", "Variant"]


class ArchitectureContract(NumberRules, StepRules, DialectRules, ConfigRules):
    """Name ``offer``; ``variants`` for what models of the family differ in beside their sizes.

    Where transformers doesn't know the offer's model type, override ``example`` and ``known``.
    """

    def test_descriptions_are_equal_each_time(self, architecture: Architecture) -> None:
        """A part built twice is equal, with equal hashes."""
        config = architecture.config(self.written(architecture)[1])
        for part in parts(config.layers):
            first, second = architecture.build(config, part), architecture.build(config, part)
            same = first == second and hash(first) == hash(second)
            require(same, "equal descriptions with equal hashes", f"{first!r} and {second!r}", part=str(part))

    def test_no_tensor_is_held(self, architecture: Architecture) -> None:
        """Neither the architecture nor a description holds a tensor."""
        config = architecture.config(self.written(architecture)[1])
        for thing in (architecture, *(architecture.build(config, part) for part in parts(config.layers))):
            held = tensors_in(thing)
            require(not held, "no tensor", f"{len(held)} of them", held_by=type(thing).__name__)

    def test_tied_ends_are_one_slot(self, architecture: Architecture) -> None:
        """Where the output matrix is the embedding, embed and head name one equal slot, else none."""
        for tied in (True, False):
            config = architecture.config(self.written(architecture, Variant({"tie_word_embeddings": tied}))[1])
            embed, *_, head = (set(architecture.slots(config, part)) for part in parts(config.layers))
            expected = "one slot of both" if tied else "no slot of both"
            named = f"{sorted(slot.key for slot in embed)} and {sorted(slot.key for slot in head)}"
            require(len(embed & head) == tied, expected, named, tie_word_embeddings=tied)

    def test_every_layer_has_a_state_and_may_have_a_rotary(self, architecture: Architecture) -> None:
        """A layer's state is Paged or Recurrent with arrays that hold something, its rotary None or of even size."""
        config = architecture.config(self.written(architecture)[1])
        for layer in range(config.layers):
            state, rotary = architecture.state(config, layer), architecture.rotary(config, layer)
            held = isinstance(state, (Paged, Recurrent)) and state.arrays
            some = held and all(size > 0 for shape in state.arrays.values() for size in shape)
            require(bool(some), "Paged or Recurrent, every size above 0", state, layer=layer)
            turned = rotary is None or (isinstance(rotary, Rotary) and rotary.dim % 2 == 0)
            require(turned, "None, or a Rotary of an even dim", rotary, layer=layer)


def tensors_in(thing: Any) -> list[torch.Tensor]:
    """Tensors among the fields of a description, and of what is below it, or of an object."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, (tuple, list)):
        return [tensor for item in thing for tensor in tensors_in(item)]
    if isinstance(thing, Description):
        return [t for f in attrs.fields(type(thing)) for t in tensors_in(getattr(thing, f.name))]  # type: ignore[arg-type]
    return [value for value in getattr(thing, "__dict__", {}).values() if isinstance(value, torch.Tensor)]
