"""Tiny random models that transformers makes of a family's own config class: what architectures are held to.

It knows no architecture of ours. transformers is imported only when a model is made.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import attrs
import torch

from truecluster.api import DType, ModelConfig

from ._missing import Missing

SPREAD = 0.2
"""Standard deviation of the weights: large enough that attention isn't uniform."""


@attrs.frozen(kw_only=True, eq=False)
class Example:
    """A tiny random model: its ``config.json``, its tensors by the container's names, and its logits.

    ``logits(ids [n], start)`` → ``[n, vocab]`` in fp32 or better, the first token at position ``start``, comes from
    another implementation. ``facts`` are what core must be told of the model, read by another hand than the
    architecture's. Norms and biases aren't all 1 and 0, and every weight is one that bf16 can hold.
    """

    raw: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    logits: Callable[[torch.Tensor, int], torch.Tensor]
    facts: ModelConfig


def library(name: str, use: str) -> Any:
    """A module that only checking needs. Raises `Missing` saying what it is for and how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Missing(f"{use} needs {name}: run python -m pip install {name}") from error


def transformers() -> Any:
    """The library."""
    return library("transformers", "comparing with another implementation")


@cache
def fields_of(model_type: str) -> frozenset[str]:
    """The fields of the family's config class; none where transformers doesn't know the family."""
    if model_type not in transformers().CONFIG_MAPPING:
        return frozenset()
    return frozenset(transformers().AutoConfig.for_model(model_type).to_dict())


def random_model(model_type: str, fields: Mapping[str, Any]) -> Example:
    """A model of the family whose config has ``fields``; the same each time, kept for the methods that follow."""
    return _random_model(model_type, json.dumps(fields))


@lru_cache(maxsize=256)
def _random_model(model_type: str, fields: str) -> Example:
    config = transformers().AutoConfig.for_model(model_type, **json.loads(fields), attn_implementation="eager")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        network = transformers().AutoModelForCausalLM.from_config(config).eval()
        for parameter in network.parameters():
            drawn = torch.empty_like(parameter).normal_(float(parameter.dim() == 1), SPREAD)
            parameter.data = drawn.bfloat16().float()

    @torch.no_grad()
    def logits(ids: torch.Tensor, start: int) -> torch.Tensor:
        positions = torch.arange(start, start + len(ids))
        return network(ids[None], position_ids=positions[None]).logits[0].float()  # type: ignore[no-any-return]

    return Example(raw=config.to_dict(), tensors=network.state_dict(), logits=logits, facts=facts_of(config))


def facts_of(config: Any) -> ModelConfig:
    """What core is to know of a model, by transformers' own names."""
    eos = config.eos_token_id
    return ModelConfig(
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        vocab=config.vocab_size,
        context=config.max_position_embeddings,
        tied=config.tie_word_embeddings,
        dtype=DType.FP32,
        eos=tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,),
    )
