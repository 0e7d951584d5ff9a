"""One token from one row of logits, on the host in fp32.

A token depends on its logits, its parameters and its key (seed, choice, position), and on nothing else: not on batch
mates, not on where sampling happens, not on what was sampled before.
"""

from __future__ import annotations

import hashlib
import struct

import attrs
import torch

GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy: dividing by them would only overflow."""
SHORTLIST = 256
"""Most likely tokens that are looked at before the whole vocabulary is sorted."""
NOT_A_TOKEN = -1
"""Stands for a token that could not be sampled since a logit is not finite."""


@attrs.frozen(kw_only=True)
class SampleParams:
    """``top_p`` in (0, 1] keeps the smallest set of likeliest tokens whose mass reaches it; 0 keeps the likeliest."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    choice: int = 0


def sample(logits: torch.Tensor, params: SampleParams, position: int) -> int:
    """``logits [vocab]`` fp32 → token id, or `NOT_A_TOKEN`; ``position`` is that of the token to come."""
    if not torch.isfinite(logits).all():
        return NOT_A_TOKEN
    if params.temperature < GREEDY_BELOW:
        return int(logits.argmax())
    likely = ((logits - logits.max()) / params.temperature).softmax(-1)
    kept = likely if params.top_p >= 1 else keep_top_p(likely, params.top_p)
    return draw(kept, uniform(params.seed, params.choice, position))


def uniform(seed: int, choice: int, position: int) -> float:
    """In [0, 1): a hash of the key, so that no generator has a state to keep or to lose."""
    key = struct.pack("<qqq", seed, choice, position)
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 11) / 2**53


def keep_top_p(likely: torch.Tensor, top_p: float) -> torch.Tensor:
    """``likely [vocab]`` with every token outside the nucleus set to 0; among equals the lowest ids stay.

    Nucleus sampling, Holtzman et al. 2019.
    """
    top = likely.topk(min(SHORTLIST, likely.numel())).values
    if float(top.double().sum()) < top_p:
        top = likely.sort(descending=True).values
    mass = top.double().cumsum(0)
    count = min(int((mass < top_p).sum()) + 1, top.numel())
    floor = top[count - 1]
    above = likely > floor
    equals = (likely == floor).nonzero().flatten()[: count - int(above.sum())]
    kept = torch.where(above, likely, 0.0)
    kept[equals] = floor
    return kept


def draw(kept: torch.Tensor, u: float) -> int:
    """Inverse of the distribution function in token-id order: the first id whose cumulative mass exceeds ``u``."""
    mass = kept.double().cumsum(0)
    index = int(torch.searchsorted(mass, u * float(mass[-1]), right=True))
    return min(index, int(kept.nonzero()[-1]))
