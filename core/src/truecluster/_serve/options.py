"""How the API is to behave, whatever cluster is behind it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ServeOptions:
    """``api_key`` ``None`` lets everybody in; ``strict_fields`` refuses fields that no schema knows."""

    api_key: str | None = attrs.field(default=None, repr=False)
    strict_fields: bool = False
