"""How long a peer may say nothing, counted by hand in looks of half a second."""

from __future__ import annotations

import pytest

from truecluster._wire.silence import LOOK, Silence

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def looks_until_unbearable(silence: Silence, elapsed: float = LOOK) -> int:
    return next(number for number in range(1, 1000) if silence.passed(elapsed))


def test_ten_seconds_are_twenty_looks() -> None:
    assert looks_until_unbearable(Silence(lambda: 10.0)) == 21


def test_a_word_begins_anew() -> None:
    silence = Silence(lambda: 10.0)
    assert not any(silence.passed(LOOK) for _ in range(19))
    silence.heard()
    assert looks_until_unbearable(silence) == 21


@pytest.mark.parametrize("pause", [30.0, 3600.0], ids=["starved", "suspended"])
def test_a_pause_of_this_process_is_not_the_silence_of_its_peer(pause: float) -> None:
    """DIST-04, DIST-15: whoever was starved for half a minute, or asleep for an hour, has not listened."""
    silence = Silence(lambda: 10.0)
    assert not silence.passed(pause)
    assert looks_until_unbearable(silence) >= 18


def test_what_was_borne_while_the_peer_was_busy_is_forgiven() -> None:
    """DIST-04: a node is silent for 40 s in a step of at most 60 s; its next word may come a little later."""
    bearable = 60.0
    silence = Silence(lambda: bearable)
    assert not any(silence.passed(LOOK) for _ in range(80))
    bearable = 10.0
    assert looks_until_unbearable(silence) == 21


async def test_too_long_returns_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from truecluster._wire import silence

    monkeypatch.setattr(silence, "LOOK", 0.01)
    assert await Silence(lambda: 0.05).too_long() > 0.05
