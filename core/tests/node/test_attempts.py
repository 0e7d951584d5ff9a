"""Looking for a coordinator again and again: ever longer pauses, few lines, an end."""

from __future__ import annotations

import logging

import anyio
import pytest

from truecluster._node import attempts
from truecluster._node.attempts import Attempts
from truecluster.api import AddressError

pytestmark = pytest.mark.anyio
AWAY = AddressError("can't reach the coordinator")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only pauses move; the pauses."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(attempts.time, "monotonic", lambda: 1000.0 + sum(made))
    monkeypatch.setattr(anyio, "sleep", sleep)
    return made


async def until_given_up(tries: Attempts) -> None:
    with pytest.raises(AddressError) as caught:  # noqa: PT012
        while True:
            await tries.failed(AWAY)
    assert caught.value is AWAY


async def test_pauses_double_up_to_fifteen_seconds_and_end_in_time(pauses: list[float]) -> None:
    await until_given_up(Attempts(60.0))
    assert pauses[:6] == [0.5, 1, 2, 4, 8, 15]
    assert max(pauses) == 15
    assert sum(pauses) == 60.0


async def test_an_hour_takes_sixty_lines_at_most(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """DIST-19: the coordinator is gone for an hour."""
    with caplog.at_level(logging.WARNING):
        await until_given_up(Attempts(3600.0))
    assert len(pauses) < 260
    assert 2 <= len(caplog.messages) <= 60
    assert caplog.messages[0] == "can't reach the coordinator; trying again for 3600 s"


async def test_without_time_one_attempt_is_all(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    await until_given_up(Attempts(0.0))
    assert not pauses
    assert not caplog.messages
