"""Which tokens may be drawn. What is dropped gets likelihood 0; of equals the lowest ids stay."""

from __future__ import annotations

import numpy as np
import torch

SHORTLIST = 256
"""Most likely tokens that are looked at before the whole vocabulary is sorted."""


def masked(logits: torch.Tensor, mask: bytes) -> torch.Tensor:
    """``logits [vocab]`` with -inf where ``mask`` has no bit, least significant first, a new tensor."""
    whole = np.frombuffer(mask.ljust(-(-logits.numel() // 8), b"\0"), dtype=np.uint8)
    bits = np.unpackbits(whole, count=logits.numel(), bitorder="little")
    return torch.where(torch.from_numpy(bits.view(bool)), logits, -torch.inf)


def truncated(likely: torch.Tensor, top_k: int, top_p: float, min_p: float) -> torch.Tensor:
    """``likely [vocab]``, which sums to 1, after top-k, top-p and min-p; what they leave isn't scaled up.

    ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 drop nothing.
    """
    if top_k or top_p < 1:
        likely = keep_likeliest(likely, top_k, top_p)
    if min_p:
        likely = torch.where(likely < min_p * likely.max(), 0.0, likely)
    return likely


def keep_likeliest(likely: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """The ``top_k`` likeliest tokens (0: all), and of these the fewest that have ``top_p`` of their mass.

    Nucleus sampling, Holtzman et al. 2019; min-p, Nguyen et al. 2024.
    """
    top = _ranked(likely, top_k, top_p)
    mass = top.double().cumsum(0)
    whole = float(mass[-1]) if top_k else 1.0
    count = min(int((mass < top_p * whole).sum()) + 1, top.numel())
    floor = top[count - 1]
    above = likely > floor
    equals = (likely == floor).nonzero().flatten()[: count - int(above.sum())]
    kept = torch.where(above, likely, 0.0)
    kept[equals] = floor
    return kept


def likeliest(values: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the ``count`` largest of ``values [vocab]``, the largest first, of equals the lowest id."""
    count = min(count, values.numel())
    floor = values.topk(count).values[-1] if count else torch.inf
    ids = (values >= floor).nonzero().flatten()
    return ids[values[ids].sort(descending=True, stable=True).indices[:count]]


def _ranked(likely: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """The largest likelihoods, falling: ``top_k`` of them, else enough for ``top_p``."""
    top = likely.topk(min(top_k or SHORTLIST, likely.numel())).values
    if top_k or float(top.double().sum()) >= top_p:
        return top
    return torch.from_numpy(np.sort(likely.numpy())).flip(0)  # a tenth of the time of torch's, which sorts ids, too
