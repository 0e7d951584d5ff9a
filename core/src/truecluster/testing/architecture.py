"""The contract of architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
import pytest
import torch

from truecluster.api import Architecture, CheckpointError, Description, Dialect, Paged, Recurrent, Rotary, Slot

from ._missing import missing
from ._network import Network, bound, parts, source

TOKENS = 70
"""Over two pages of sequence state."""
STEPS = (41, 1, 1, 27)
"""A prompt in two chunks with two decoding steps between them."""


@attrs.frozen(kw_only=True, eq=False)
class Example:
    """A tiny random model: its ``config.json``, its tensors by the container's names, and its logits.

    ``logits(ids [n])`` → ``[n, vocab]`` comes from another implementation. ``raw`` allows at least 70 tokens.
    """

    raw: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    logits: Callable[[torch.Tensor], torch.Tensor]


class ArchitectureContract:
    """Give ``architecture``, ``example`` and ``variants``; name the fields that a config can't do without."""

    container: ClassVar[str] = "huggingface"
    model_type: ClassVar[str] = ""
    """Which dialect binds the examples; the only one of the container where empty."""
    variants: ClassVar[Mapping[str, Any]] = {}
    """Name → what `example` is called with; one for each way in which models of the family differ."""
    required: ClassVar[tuple[str, ...]] = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    """Fields without which there is no model."""
    refused: ClassVar[Mapping[str, tuple[Mapping[str, Any], str]]] = {}
    """Name → changes to a config that must be refused, and a word that the error must contain."""

    @pytest.fixture
    def architecture(self) -> Architecture:
        """The architecture under test."""
        raise missing(self, "the fixture 'architecture'", "an Architecture")

    def example(self, variant: Any) -> Example:
        """A tiny model of that variant; the same each time."""
        raise missing(self, "example(variant)", "an Example with logits of another implementation")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test per variant, required field and refusal of the subclass."""
        for name, values in (("variant", self.variants), ("refusal", self.refused)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, list(values.values()), ids=list(values))
        if "field" in metafunc.fixturenames:
            metafunc.parametrize("field", self.required)

    def dialect(self, architecture: Architecture) -> Dialect:
        """The one that binds the examples."""
        fitting = [d for d in architecture.dialects if d.container == self.container]
        return next(d for d in fitting if self.model_type in ("", d.model_type))

    def raw(self, architecture: Architecture, example: Example) -> dict[str, Any]:
        """The config as core hands it over: what the container leaves out comes from the dialect."""
        return {**self.dialect(architecture).defaults, **{k: v for k, v in example.raw.items() if v is not None}}

    def any_raw(self, architecture: Architecture) -> dict[str, Any]:
        """The config of the first variant."""
        if not self.variants:
            raise missing(self, "variants", "name → what example(variant) is called with")
        return self.raw(architecture, self.example(next(iter(self.variants.values()))))

    def test_logits_are_those_of_the_oracle(self, architecture: Architecture, variant: Any) -> None:
        """Within 1e-4, whether tokens come in chunks or one by one."""
        example = self.example(variant)
        raw = self.raw(architecture, example)
        config = architecture.config(raw)
        slots = all_slots(architecture, config)
        network = Network(architecture, config, bound(slots, self.dialect(architecture), example.tensors, raw))
        ids = torch.randint(0, config.vocab, (TOKENS,), generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(network.logits(ids, STEPS), example.logits(ids).float(), atol=1e-4, rtol=1e-5)

    def test_every_tensor_has_a_slot(self, architecture: Architecture, variant: Any) -> None:
        """An output matrix that is the embedding's needs none."""
        example = self.example(variant)
        config = architecture.config(self.raw(architecture, example))
        named = {source(self.dialect(architecture), slot.key)[1] for slot in all_slots(architecture, config)}
        output = self.dialect(architecture).slots.get("head.output")
        tied = {f"{output}.weight"} if config.tied else set()
        assert set(example.tensors) - tied == named - tied

    def test_slots_are_unique_and_blocks_share_none(self, architecture: Architecture, variant: Any) -> None:
        config = architecture.config(self.raw(architecture, self.example(variant)))
        slots = all_slots(architecture, config)
        assert len({slot.key for slot in slots}) == len(slots)
        block = [slot.key for part in parts(config.layers)[1:-1] for slot in architecture.slots(config, part)]
        assert len(set(block)) == len(block)

    def test_tied_ends_name_one_slot(self, architecture: Architecture, variant: Any) -> None:
        config = architecture.config(self.raw(architecture, self.example(variant)))
        ends = [set(architecture.slots(config, part)) for part in (parts(config.layers)[0], parts(config.layers)[-1])]
        assert bool(ends[0] & ends[1]) == config.tied

    def test_every_dialect_names_a_tensor_for_every_slot(self, architecture: Architecture, variant: Any) -> None:
        config = architecture.config(self.raw(architecture, self.example(variant)))
        for dialect in architecture.dialects:
            for slot in all_slots(architecture, config):
                source(dialect, slot.key)

    def test_it_holds_no_tensor_and_describes_the_same_each_time(
        self, architecture: Architecture, variant: Any
    ) -> None:
        config = architecture.config(self.raw(architecture, self.example(variant)))
        for part in parts(config.layers):
            description = architecture.build(config, part)
            assert description == architecture.build(config, part)
            assert hash(description) == hash(architecture.build(config, part))
            assert not list(tensors_in(description))
        assert not list(tensors_in(architecture))

    def test_every_layer_has_a_state_and_may_have_a_rotary(self, architecture: Architecture, variant: Any) -> None:
        config = architecture.config(self.raw(architecture, self.example(variant)))
        for layer in range(config.layers):
            state, rotary = architecture.state(config, layer), architecture.rotary(config, layer)
            assert isinstance(state, (Paged, Recurrent))
            assert all(size > 0 for shape in state.arrays.values() for size in shape)
            assert rotary is None or (isinstance(rotary, Rotary) and rotary.dim % 2 == 0)

    def test_a_missing_field_is_named(self, architecture: Architecture, field: str) -> None:
        raw = self.any_raw(architecture)
        del raw[field]
        with pytest.raises(CheckpointError, match=field):
            architecture.config(raw)

    @pytest.mark.parametrize("value", ["many", -1, 0, 1.5, True, [2]])
    def test_a_field_of_a_wrong_kind_is_named(self, architecture: Architecture, field: str, value: Any) -> None:
        with pytest.raises(CheckpointError, match=field):
            architecture.config({**self.any_raw(architecture), field: value})

    def test_what_is_not_supported_is_refused_by_the_config(
        self, architecture: Architecture, refusal: tuple[Mapping[str, Any], str]
    ) -> None:
        changes, word = refusal
        with pytest.raises(CheckpointError, match=word):
            architecture.config({**self.any_raw(architecture), **changes})


def all_slots(architecture: Architecture, config: Any) -> list[Slot]:
    """The slots of all parts, equal ones once."""
    return list(dict.fromkeys(slot for part in parts(config.layers) for slot in architecture.slots(config, part)))


def tensors_in(thing: Any) -> list[torch.Tensor]:
    """Tensors among the fields of a description, and of what is below it, or of an object."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, (tuple, list)):
        return [tensor for item in thing for tensor in tensors_in(item)]
    if isinstance(thing, Description):
        return [t for f in attrs.fields(type(thing)) for t in tensors_in(getattr(thing, f.name))]  # type: ignore[arg-type]
    return [value for value in getattr(thing, "__dict__", {}).values() if isinstance(value, torch.Tensor)]
