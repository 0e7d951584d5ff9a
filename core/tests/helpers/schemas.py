"""JSON schemas that several suites ask for."""

from __future__ import annotations

from typing import Any

BOUNDED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 8},
        "tags": {"type": "array", "items": {"enum": ["x", "yy"]}, "maxItems": 3},
        "score": {"type": "integer", "minimum": -20, "maximum": 20},
        "more": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "required": ["title", "tags", "score", "more"],
    "additionalProperties": False,
}
"""One whose answers have an end, whatever is drawn."""
