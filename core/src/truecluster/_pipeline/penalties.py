"""What is added to logits, and taken from them for tokens that a sequence has already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import torch

if TYPE_CHECKING:
    from .sampler import SampleParams


def _no_ids() -> torch.Tensor:
    return torch.empty(0, dtype=torch.long)


@attrs.define(eq=False)
class History:
    """A sequence's own tokens: the distinct ids of its prompt, int64, and its answer so far."""

    prompt: torch.Tensor = attrs.field(factory=_no_ids)
    answer: list[int] = attrs.field(factory=list)


NO_HISTORY = History()


def to_bits(ids: Sequence[int]) -> bytes:
    """A set of tokens, a bit for each id up to the largest, least significant first."""
    there = np.zeros(max(ids, default=-1) + 1, dtype=bool)
    there[list(ids)] = True
    return np.packbits(there, bitorder="little").tobytes()


def from_bits(bits: bytes) -> torch.Tensor:
    """The ids of a set, ascending, int64."""
    there = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
    return torch.from_numpy(np.flatnonzero(there))


def adjusted(logits: torch.Tensor, params: SampleParams, history: History) -> torch.Tensor:
    """``logits [vocab]`` with bias and penalties, a new tensor.

    A bias is added. Then what prompt or answer has is divided by the repetition penalty where it is positive, else
    multiplied (Keskar et al. 2019, and transformers' processor). Then the presence penalty and, times its count, the
    frequency penalty are taken from every token of the answer; the prompt's don't count (OpenAI's definition). Ids that
    there are no logits for change nothing: no message may hurt a stage.
    """
    result = logits.clone()
    biases = [bias for bias in params.logit_bias if bias.id < len(logits)]
    if biases:
        result[torch.tensor([bias.id for bias in biases])] += torch.tensor([bias.value for bias in biases])
    if params.counts_answer:
        _penalize(result, params, history)
    return result


def _penalize(logits: torch.Tensor, params: SampleParams, history: History) -> None:
    answer = torch.tensor(history.answer, dtype=torch.long)
    answer = answer[answer < len(logits)]
    if params.repeats:
        ids, penalty = torch.cat([history.prompt, answer]), params.repetition_penalty
        ids = ids[ids < len(logits)]
        had = logits[ids]
        logits[ids] = torch.where(had > 0, had / penalty, had * penalty)
    ids, counts = map(torch.from_numpy, np.unique(answer.numpy(), return_counts=True))
    logits[ids] -= params.presence_penalty + params.frequency_penalty * counts
