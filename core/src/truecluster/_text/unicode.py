"""What a JSON value from outside must be: text that UTF-8 can carry, and nested no deeper than recursion goes.

JSON lets half of a surrogate pair through, which tokenizers and responses can't carry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from truecluster.api import RequestError

MAX_DEPTH = 128
"""Objects and lists inside each other; what reads JSON schemas goes as deep."""
_SHOWN = 64
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def require_plain(value: Any, path: str, depth: int = MAX_DEPTH) -> None:
    """Raises `RequestError` naming what inside ``value``, a JSON value at ``path``, isn't valid Unicode or too deep."""
    if isinstance(value, str):
        if _HALF_PAIR.search(value):
            raise RequestError(f"'{path}' holds half of a surrogate pair; send valid Unicode text", path)
    elif isinstance(value, (Mapping, list, tuple)):
        if not depth:
            raise RequestError(f"'{path[:_SHOWN]}' is nested too deeply; nest at most {MAX_DEPTH} deep", path[:_SHOWN])
        _require_items(value, path, depth - 1)


def _require_items(value: Any, path: str, depth: int) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            require_plain(key, path)
            shown = str(key)[:_SHOWN]
            require_plain(item, f"{path}.{shown}" if path else shown, depth)
    else:
        for index, item in enumerate(value):
            require_plain(item, f"{path}[{index}]", depth)
