"""In how many seconds there is likely to be a place in the queue."""

from __future__ import annotations

import pytest

from truecluster._engine.departures import LONGEST, Departures


@pytest.mark.parametrize(
    ("ends", "now", "seconds"),
    [
        ([], 5.0, LONGEST),
        ([0.0], 0.1, 1),
        ([0.0, 2.5, 5.0, 7.5], 10.0, 3),  # four in ten seconds: one in 2.5
        ([0.0], 1000.0, LONGEST),
    ],
)
def test_the_time_from_one_end_to_the_next(ends: list[float], now: float, seconds: int) -> None:
    times = [*ends, now]
    departures = Departures(lambda: times.pop(0))
    for _ in ends:
        departures.note()
    assert departures.interval == seconds
