"""Packing a whole model before the first assignment, which needs the hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from .model import ClusterModel
from .report import Report


def pack_all(model: ClusterModel, report: Report, stop: Callable[[], bool]) -> None:
    """Every unit that was never packed, once, until ``stop`` says so. Blocking."""
    catalog, slots = model.catalog, list(model.bound.slots.values())
    unknown = [slot for slot in slots if catalog.known(slot) is None]
    if unknown:
        report.say(f"packing {len(unknown)} of {len(slots)} tensors as {model.recipe.name}")
    total, done = sum(catalog.nbytes(slot) for slot in unknown), 0
    with _one_thread():
        for slot in unknown:
            if stop():
                return
            done += catalog.unit(slot).nbytes
            report.progress("packing", done, total)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Packing is many small operations, between which threads on busy cores wait for each other, up to 100 times."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
