"""Text that UTF-8 can carry: JSON lets a half of a surrogate pair through, tokenizers and responses can't."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from truecluster.api import RequestError

_HALF_PAIR = re.compile("[\ud800-\udfff]")


def require_unicode(value: Any, path: str) -> None:
    """Raises `RequestError` naming the string inside ``value``, a JSON value at ``path``, that isn't valid Unicode."""
    if isinstance(value, str):
        if _HALF_PAIR.search(value):
            raise RequestError(f"'{path}' holds half of a surrogate pair; send valid Unicode text", path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            require_unicode(key, path)
            require_unicode(item, path + "." + str(key) if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            require_unicode(item, f"{path}[{index}]")
