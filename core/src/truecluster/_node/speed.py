"""How fast a device reads a linear's weights, which is most of what a token costs."""

from __future__ import annotations

import logging
import time

import torch

from truecluster.api import DeviceContext

LOG = logging.getLogger(__name__)
SIDE = 4096
"""Columns of the matrix; with half as many rows it has 32 MiB, more than most caches of one core."""
PASSES = 5
SECONDS = 0.2
"""After which no pass begins any more."""


def measured(device: DeviceContext) -> float | None:
    """Bytes a second at which one row meets a fp32 matrix of 32 MiB, the best of at most `PASSES` after one that warms.

    On the threads that ``device`` was opened with. Takes 0.05 s on a laptop's processor, and stays under 0.5 s where
    memory gives 0.5 GB/s or more. ``None``, with a log line, where the device can't do it.
    """
    try:
        with device.scope(), device.turn():
            row = device.upload(torch.ones(1, SIDE))
            matrix = device.upload(torch.ones(SIDE // 2, SIDE))
            return matrix.numel() * matrix.element_size() / _best(device, row, matrix)
    except Exception as error:  # whatever is wrong with a device is told where a stage needs it
        LOG.warning("the speed of %s isn't known: %s: %s", device.id, type(error).__name__, error)
        return None


def _best(device: DeviceContext, row: torch.Tensor, matrix: torch.Tensor) -> float:
    """Seconds of the fastest pass."""
    _seconds(device, row, matrix)
    deadline, taken = time.perf_counter() + SECONDS, [_seconds(device, row, matrix)]
    while len(taken) < PASSES and time.perf_counter() < deadline:
        taken.append(_seconds(device, row, matrix))
    return min(taken)


def _seconds(device: DeviceContext, row: torch.Tensor, matrix: torch.Tensor) -> float:
    since = time.perf_counter()
    torch.nn.functional.linear(row, matrix)
    device.synchronize()
    return time.perf_counter() - since
