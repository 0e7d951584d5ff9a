"""From what was asked to what the head is told."""

from __future__ import annotations

import secrets

import attrs

from truecluster._pipeline.sampler import SampleParams
from truecluster._wire.messages import Bias

from .requests import Request


def sample_params(request: Request) -> SampleParams:
    """With a seed, if need be at random; only the likeliest token is kept where ``top_p`` is 0, which is greedy."""
    asked = request.sampling
    changes = {"temperature": 0.0, "top_p": 1.0} if asked.top_p == 0 else {}
    return SampleParams(
        **attrs.asdict(asked, recurse=False)
        | {
            "logit_bias": tuple(Bias(id=id, value=value) for id, value in asked.logit_bias.items()),
            "seed": secrets.randbits(63) if asked.seed is None else asked.seed,
            "choice": request.choice,
            **changes,
        }
    )
