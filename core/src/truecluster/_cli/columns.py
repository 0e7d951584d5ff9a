"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]], words: int) -> list[str]:
    """Lines of cells, all of the same number; the first ``words`` columns are words, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if i < words else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def scaled(value: float | None, unit: float) -> str:
    """A number in units of ``unit``, ``-`` where it isn't known."""
    return "-" if value is None else f"{value / unit:.1f}"
