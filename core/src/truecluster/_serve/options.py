"""How the API is to behave, whatever cluster is behind it."""

from __future__ import annotations

import attrs

from truecluster._engine.requests import Sampling

OPENAI = Sampling(temperature=1.0)
"""What OpenAI's own API takes for absent fields."""


@attrs.frozen(kw_only=True)
class ServeOptions:
    """``api_key`` ``None`` lets in everybody who asks for a host that is this machine on loopback.

    ``strict_fields`` refuses fields that no schema knows. ``defaults`` is what requests mean that say nothing of
    sampling.
    """

    api_key: str | None = attrs.field(default=None, repr=False)
    strict_fields: bool = False
    defaults: Sampling = OPENAI
