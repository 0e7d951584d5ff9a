"""What a head answers: a token for each row that was wanted, and log-probabilities where they were asked for.

On an edge these are ``ids [n]`` int32, then, where any row has them, ``[n, 1 + width]`` fp32: the token's own
log-probability and those of the likeliest; then the ids of these, ``[n, width]`` int32. A row without has NaN for its
own, one with fewer than ``width`` has id -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
import torch

from .logprobs import Logprobs
from .truncation import likeliest

_NONE = -1


@attrs.define
class Answer:
    """One step's tokens in the order of its rows; ``logprobs`` is as long, or empty where no row has any."""

    ids: list[int]
    logprobs: list[Logprobs | None] = attrs.field(factory=list)


def logprobs_of(logits: torch.Tensor, id: int, count: int) -> Logprobs:
    """Of a token, and of the ``count`` likeliest, by the model's own ``logits [vocab]``, which nothing has adjusted."""
    ids = likeliest(logits, count)
    total = logits.double().logsumexp(0)  # a sum in fp32 would depend on the number of threads
    values = torch.cat([logits[id : id + 1], logits[ids]]) - total
    own, *others = values.tolist()
    return Logprobs(own, tuple(zip(ids.tolist(), others, strict=True)))


def ids_tensor(ids: Sequence[int]) -> torch.Tensor:
    """int32 ``[len(ids)]``, by numpy because torch takes five times as long to read a list."""
    return torch.from_numpy(np.array(ids, dtype=np.int32)) if ids else torch.empty(0, dtype=torch.int32)


def pack(answer: Answer) -> list[torch.Tensor]:
    """The tensors that an edge carries."""
    ids = ids_tensor(answer.ids)
    if not any(answer.logprobs):
        return [ids]
    width = max(len(each.top) for each in answer.logprobs if each)
    values = torch.full((len(ids), 1 + width), math.nan)
    others = torch.full((len(ids), width), _NONE, dtype=torch.int32)
    for row, each in enumerate(answer.logprobs):
        if each:
            values[row, : 1 + len(each.top)] = torch.tensor([each.own, *(value for _, value in each.top)])
            others[row, : len(each.top)] = torch.tensor([id for id, _ in each.top], dtype=torch.int32)
    return [ids, values, others] if width else [ids, values]


def unpack(tensors: Sequence[torch.Tensor]) -> Answer:
    """What `pack` packed."""
    ids = tensors[0].tolist()
    if len(tensors) == 1:
        return Answer(ids=ids)
    others = tensors[2].tolist() if len(tensors) > 2 else [[]] * len(ids)
    return Answer(ids=ids, logprobs=[_logprobs(*row) for row in zip(tensors[1].tolist(), others, strict=True)])


def _logprobs(values: list[float], ids: list[int]) -> Logprobs | None:
    if math.isnan(values[0]):
        return None
    top = tuple((id, value) for id, value in zip(ids, values[1:], strict=True) if id != _NONE)
    return Logprobs(values[0], top)
