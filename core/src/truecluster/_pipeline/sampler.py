"""One token from one row of logits, on the host in fp32.

A token depends on its logits, its parameters, its mask, its key (seed, choice, position) and, where penalties are asked
for, on its own sequence's tokens; on nothing else: not on batch mates, not on where sampling happens.

What is asked for applies in this order, which is that of transformers: bias, repetition, presence and frequency
penalty, mask, temperature, top-k, top-p, min-p. Greedy is the likeliest after bias, penalties and mask.
"""

from __future__ import annotations

import hashlib
import math
import struct

import attrs
import torch

from truecluster._wire.messages import Bias

from .penalties import NO_HISTORY, History, adjusted
from .truncation import masked, truncated

GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy: dividing by them would only overflow."""
NOT_A_TOKEN = -1
"""Stands for a token that could not be sampled: a logit is not finite, there is none for it, or nothing may come."""


@attrs.frozen(kw_only=True)
class SampleParams:
    """How the tokens of a sequence are sampled; the defaults are greedy and tell no log-probabilities.

    ``top_k`` 0 keeps all. ``top_p`` in (0, 1] keeps the smallest set of likeliest tokens whose mass reaches it.
    ``min_p`` drops what is less likely than that share of the likeliest. ``logprobs`` is how many of the likeliest
    tokens are told beside each one's own log-probability, ``None`` for neither.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[Bias, ...] = ()
    logprobs: int | None = None
    seed: int = 0
    choice: int = 0

    @property
    def counts_answer(self) -> bool:
        """Whether tokens that were sampled earlier matter."""
        return self.repeats or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def repeats(self) -> bool:
        """Whether the prompt's tokens matter, too."""
        return self.repetition_penalty != 1


def sample(
    logits: torch.Tensor,
    params: SampleParams,
    position: int,
    history: History = NO_HISTORY,
    mask: bytes | None = None,
) -> int:
    """``logits [vocab]`` fp32 → token id, or `NOT_A_TOKEN`; ``position`` is that of the token to come.

    ``mask`` is a bit for each id that may come, least significant first; ids beyond its end may not.
    """
    if params.logit_bias or params.counts_answer:
        logits = adjusted(logits, params, history)
    if not _finite(logits):
        return NOT_A_TOKEN
    if mask is not None:
        logits = masked(logits, mask)
        if logits.max() == -torch.inf:
            return NOT_A_TOKEN
    if params.temperature < GREEDY_BELOW:
        return int(logits.numpy().argmax())  # of equals the first, as torch's, in a tenth of its time
    likely = ((logits - logits.max()) / params.temperature).softmax(-1)
    kept = truncated(likely, params.top_k, params.top_p, params.min_p)
    return draw(kept, uniform(params.seed, params.choice, position))


def taken(logits: torch.Tensor, id: int) -> int:
    """``id`` as if it had been sampled from ``logits [vocab]``; `NOT_A_TOKEN` where it couldn't be."""
    return id if id < logits.numel() and _finite(logits) else NOT_A_TOKEN


def _finite(logits: torch.Tensor) -> bool:
    """Whether all are: in a tenth of the time that a mask of them takes."""
    lowest, highest = logits.aminmax()  # both NaN if any is
    return -math.inf < lowest.item() and highest.item() < math.inf


def uniform(seed: int, choice: int, position: int) -> float:
    """In [0, 1): a hash of the key, so that no generator has a state to keep or to lose."""
    key = struct.pack("<qqq", seed, choice, position)
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 11) / 2**53


def draw(kept: torch.Tensor, u: float) -> int:
    """Inverse of the distribution function in token-id order: the first id whose cumulative mass exceeds ``u``."""
    mass = kept.double().cumsum(0)
    index = int(torch.searchsorted(mass, u * float(mass[-1]), right=True))
    return index if index < kept.numel() else int(kept.nonzero()[-1])  # ``u`` next to 1 may be rounded up to it
