"""What several of the engine's suites open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def houses() -> Iterator[list[Any]]:
    """Houses that a test opens, closed at its end."""
    opened: list[Any] = []
    yield opened
    for house in opened:
        house.close()
