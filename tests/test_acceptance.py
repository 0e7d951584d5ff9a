"""docs/acceptance.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.findall(
    r"`((?:core|plugins|tcplug_|tests)[\w/]*(?:\.py)?)(?:::(\w+))?`", (ROOT / "docs/acceptance.md").read_text()
)


def test_something_is_named() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    there = ROOT / path
    assert there.exists()
    assert not name or f"def {name}(" in there.read_text(encoding="utf-8")
