"""Llama against transformers: random tiny models, fp32, logits within 1e-4."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tcplug_llama.model import Llama
from transformers import LlamaConfig, LlamaForCausalLM

from truecluster.api import (
    Block,
    CheckpointError,
    DeviceContext,
    DType,
    Dtypes,
    Embed,
    Head,
    Packed,
    Target,
    WeightFormat,
)
from truecluster.nn import PAGE, Lowering, Row, SequenceState

TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {"tie_word_embeddings": True},
    "untied": {"tie_word_embeddings": False},
    "attention biases": {"attention_bias": True},
    "mlp biases": {"mlp_bias": True},
    "1 query head per key head": {"num_key_value_heads": 4},
    "4 query heads per key head": {"num_key_value_heads": 1},
    "7 query heads per key head": {"hidden_size": 56, "num_attention_heads": 7, "num_key_value_heads": 1},
    "own head size": {"head_dim": 16},
    "llama3 frequencies": {"rope_parameters": LLAMA3},
    "linear frequencies": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    "own eps and base": {"rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
}


class Raw(WeightFormat):
    """fp32 bytes as they are."""

    id = "raw"

    @classmethod
    def from_id(cls, id: str) -> Raw:
        return cls()

    def wire_bytes(self, shape: tuple[int, ...]) -> int:
        return 4 * torch.Size(shape).numel()

    def rows(self, packed: Packed, index: Any) -> torch.Tensor:
        values = packed.data.view(torch.float32).view(packed.shape)
        return values if len(packed.shape) == 1 else values[index]

    def take(self, packed: Packed, index: torch.Tensor) -> Packed:
        raise NotImplementedError


class Host(DeviceContext):
    id = kind = "cpu"

    def memory(self) -> tuple[None, None]:
        return None, None

    def scope(self) -> nullcontext[None]:
        return nullcontext()

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    download = upload

    def synchronize(self) -> None: ...

    def native(self, dtype: DType) -> bool:
        return dtype is DType.FP32


def reference(changes: Mapping[str, Any]) -> LlamaForCausalLM:
    torch.manual_seed(7)
    network = LlamaForCausalLM(LlamaConfig(**{**TINY, **changes}, attn_implementation="eager")).eval()
    for parameter in network.parameters():
        parameter.data.normal_(0, 0.2)
    return network


def ours(network: LlamaForCausalLM, ids: torch.Tensor, steps: list[int]) -> torch.Tensor:
    """Logits of ``ids``, computed in steps of the given lengths."""
    architecture = Llama()
    config = architecture.config(network.config.to_dict())
    names = next(d for d in architecture.dialects if d.container == "huggingface").slots
    parts = [Embed(), *(Block(i) for i in range(config.layers)), Head()]
    tensors = network.state_dict()

    def packed(slot: Any) -> Packed:
        key, bias, _ = slot.key.partition(".bias")
        pieces = key.split(".")
        pattern = ".".join(["*" if piece.isdigit() else piece for piece in pieces])
        name = names[pattern].replace("*", pieces[1]) + (bias or ".weight")
        assert tuple(tensors[name].shape) == slot.shape
        return Packed("raw", slot.shape, tensors[name].contiguous().view(-1).view(torch.uint8))

    slots = {slot for part in parts for slot in architecture.slots(config, part)}
    target = Target(formats={s.key: Raw() for s in slots}, device=Host(), dtypes=Dtypes(DType.FP32, DType.FP32))
    lowering = Lowering(target)
    networks = []
    for part in parts:
        description = architecture.build(config, part)
        readers = lowering.readers(description)
        handles = {
            (k.name, slot.key): k.kernel.prepare(slot, packed(slot), target) for slot in readers for k in readers[slot]
        }
        networks.append(lowering.bind(description, handles))
    layers = range(config.layers)
    states = {i: architecture.state(config, i) for i in layers}
    state = SequenceState(states, [architecture.rotary(config, i) for i in layers], pages=8, sequences=1)
    state.open(0)
    for page in range(-(-len(ids) // PAGE)):
        state.extend(0, page)
    logits, position = [], 0
    for count in steps:
        batch = state.begin([Row(0, position, count)])
        hidden = networks[0](ids[position : position + count])
        for i in layers:
            hidden = networks[1 + i](hidden, batch, state.layers[i])
        logits.append(networks[-1](hidden))
        position += count
    return torch.cat(logits)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_logits_are_those_of_transformers(changes: dict[str, Any]) -> None:
    network = reference(changes)
    ids = torch.randint(0, 97, (70,), generator=torch.Generator().manual_seed(1))
    expected = network(ids[None]).logits[0]
    found = ours(network, ids.int(), steps=[41, 1, 1, 27])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_a_frequency_rule_that_is_not_known_is_refused_by_the_config() -> None:
    raw = {**TINY, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}}
    with pytest.raises(CheckpointError, match=r"rope_type 'yarn' is not supported"):
        Llama().config(raw)


def test_a_frequency_rule_without_its_numbers_is_refused_by_the_config() -> None:
    with pytest.raises(CheckpointError, match="'llama3' needs 'factor'"):
        Llama().config({**TINY, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0}})
