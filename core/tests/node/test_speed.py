"""The benchmark that a node makes when it joins, on a device that takes as long as it is told."""

from __future__ import annotations

import logging
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from truecluster._node import speed
from truecluster.api import DeviceContext, OutOfMemory

BYTES = 2048 * 4096 * 4


class Slow(DeviceContext):
    """Whose passes take the given seconds, the last of them for ever."""

    id = kind = "slow"

    def __init__(self, *seconds: float) -> None:
        self.now = 0.0
        self.passes = 0
        self.held: list[str] = []
        self._seconds: Iterator[float] = iter((*seconds, *[seconds[-1]] * 99))

    def memory(self) -> tuple[None, None]:
        return None, None

    def scope(self) -> AbstractContextManager[None]:
        self.held.append("scope")
        return nullcontext()

    def turn(self) -> AbstractContextManager[None]:
        self.held.append("turn")
        return nullcontext()

    def upload(self, tensor):
        return tensor

    def download(self, tensor):
        return tensor

    def synchronize(self) -> None:
        self.now += next(self._seconds)
        self.passes += 1

    def native(self, dtype) -> bool:
        return True


@pytest.fixture
def measured(monkeypatch):
    def measure(device: Slow) -> float | None:
        monkeypatch.setattr(speed, "time", types.SimpleNamespace(perf_counter=lambda: device.now))
        return speed.measured(device)

    return measure


def test_it_is_the_bytes_of_the_matrix_by_the_fastest_pass_without_the_first(measured):
    device = Slow(0.001, 0.03, 0.02, 0.04)
    assert measured(device) == pytest.approx(BYTES / 0.02)
    assert device.held == ["scope", "turn"]


def test_it_takes_five_passes_and_one_that_warms(measured):
    device = Slow(0.01)
    measured(device)
    assert device.passes == 6


def test_a_slow_device_is_not_asked_again_and_again(measured):
    device = Slow(0.9)
    assert measured(device) == pytest.approx(BYTES / 0.9)
    assert device.passes == 2


def test_a_device_that_fails_at_it_has_no_speed_and_a_line_says_why(measured, caplog):
    class Full(Slow):
        def upload(self, tensor):
            raise OutOfMemory("slow ran out of memory")

    with caplog.at_level(logging.WARNING):
        assert measured(Full(0.1)) is None
    assert caplog.messages == ["the speed of slow isn't known: OutOfMemory: slow ran out of memory"]
