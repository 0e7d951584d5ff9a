"""The suite of architectures catches architectures that are wrong."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import attrs
import pytest
import torch

from truecluster.api import (
    Architecture,
    CheckpointError,
    Description,
    Dialect,
    DType,
    Embed,
    Head,
    ModelConfig,
    Paged,
    Role,
    Slot,
)
from truecluster.nn import Embedding, LanguageHead, Linear, Norm
from truecluster.testing.architecture import ArchitectureContract, Example


@attrs.frozen(cache_hash=True)
class Residual(Description):
    """A block without attention: ``hidden + linear(norm(hidden))``."""

    norm: Norm
    linear: Linear

    def forward(self, hidden: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        return hidden + self.linear(self.norm(hidden))


@attrs.frozen(cache_hash=True)
class Bypassing(Residual):
    """Forgets the residual."""

    def forward(self, hidden: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        return self.linear(self.norm(hidden))


class Toy(Architecture):
    """A right one."""

    block: type[Description] = Residual
    dialects = (
        Dialect(
            container="huggingface",
            model_type="toy",
            slots={
                "embed.tokens": "embed",
                "block.*.norm": "layers.*.norm",
                "block.*.linear": "layers.*.linear",
                "head.norm": "norm",
                "head.output": "output",
            },
        ),
    )

    def config(self, raw):
        fields = {"hidden": "hidden_size", "layers": "num_hidden_layers", "vocab": "vocab_size"}
        for name in fields.values():
            value = raw.get(name)
            if type(value) is not int or value < 1:
                raise CheckpointError(f"config: {name} must be a positive whole number, not {value!r}")
        read = {field: raw[name] for field, name in fields.items()}
        return ModelConfig(**read, context=100, tied=raw.get("tied", False), dtype=DType.FP32)

    def build(self, config, part):
        width = config.hidden
        tokens = Slot("embed.tokens", Role.EMBEDDING, (config.vocab, width))
        if isinstance(part, Embed):
            return Embedding(tokens)
        if isinstance(part, Head):
            output = tokens if config.tied else Slot("head.output", Role.HEAD, (config.vocab, width))
            return LanguageHead(Norm(Slot("head.norm", Role.NORM, (width,)), 1e-6), Linear(output))
        norm = Norm(Slot(f"{self.name(part)}.norm", Role.NORM, (width,)), 1e-6)
        return self.block(norm, Linear(Slot(f"{self.name(part)}.linear", Role.LINEAR, (width, width))))

    def name(self, part):
        return str(part)

    def rotary(self, config, layer):
        return None

    def state(self, config, layer):
        return Paged({"k": (1,)})


class Forgetful(Toy):
    """Leaves out the residual."""

    block = Bypassing


class Lumping(Toy):
    """All blocks read the first one's parameters."""

    def name(self, part):
        return "block.0"


class Guessing(Toy):
    """Makes up what a config leaves out."""

    def config(self, raw):
        return super().config({"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 30, **raw})


class Holding(Toy):
    """Keeps a tensor."""

    def __init__(self):
        self.table = torch.zeros(3)


def oracle(tensors: dict[str, torch.Tensor], tied: bool, ids: torch.Tensor) -> torch.Tensor:
    """The toy, written out."""

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps=1e-6)

    hidden = tensors["embed.weight"][ids]
    for i in range(2):
        hidden = hidden + norm(hidden, tensors[f"layers.{i}.norm.weight"]) @ tensors[f"layers.{i}.linear.weight"].T
    return norm(hidden, tensors["norm.weight"]) @ tensors["embed.weight" if tied else "output.weight"].T


class _Suite(ArchitectureContract):
    made: type[Architecture] = Toy
    variants = MappingProxyType({"untied": False, "tied": True})
    required = ("hidden_size", "num_hidden_layers", "vocab_size")

    @pytest.fixture
    def architecture(self):
        return self.made()

    def example(self, tied):
        draw = torch.Generator().manual_seed(3)
        shapes = {"embed": (30, 8), "norm": (8,), "output": (30, 8)}
        shapes |= {
            f"layers.{i}.{name}": shape for i in range(2) for name, shape in (("norm", (8,)), ("linear", (8, 8)))
        }
        tensors = {f"{name}.weight": torch.randn(shape, generator=draw) for name, shape in shapes.items()}
        if tied:
            del tensors["output.weight"]
        raw = {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 30, "tied": tied}
        return Example(raw=raw, tensors=tensors, logits=lambda ids: oracle(tensors, tied, ids))


class SuiteOfToy(_Suite):
    pass


class SuiteOfForgetful(_Suite):
    made = Forgetful


class SuiteOfLumping(_Suite):
    made = Lumping


class SuiteOfGuessing(_Suite):
    made = Guessing


class SuiteOfHolding(_Suite):
    made = Holding


def test_a_right_architecture_passes(failures):
    assert failures(SuiteOfToy) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfForgetful, "test_logits_are_those_of_the_oracle"),
        (SuiteOfLumping, "test_slots_are_unique_and_blocks_share_none"),
        (SuiteOfGuessing, "test_a_missing_field_is_named"),
        (SuiteOfHolding, "test_it_holds_no_tensor_and_describes_the_same_each_time"),
    ],
)
def test_a_wrong_architecture_is_caught(failures, suite, caught):
    assert caught in failures(suite)
