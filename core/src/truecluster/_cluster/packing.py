"""Packing a whole model before the first assignment, which needs the hashes."""

from __future__ import annotations

from collections.abc import Callable

from .model import ClusterModel
from .report import Report


def pack_all(model: ClusterModel, report: Report, stop: Callable[[], bool]) -> None:
    """Every unit that was never packed, once, until ``stop`` says so; all are held in the store then. Blocking.

    Raises `NodeError` where the packed bytes don't fit on the disk.
    """
    catalog, slots = model.catalog, list(model.bound.slots.values())
    unknown = [slot for slot in slots if catalog.known(slot) is None]
    catalog.units(slot for slot in slots if catalog.known(slot) is not None)
    total, done = sum(catalog.nbytes(slot) for slot in unknown), 0
    catalog.store.make_room(total)
    if not unknown:
        return
    report.say(f"packing {len(unknown)} of {len(slots)} tensors as {model.recipe.name}")
    with report.task("packing", total) as advance:
        for slot in unknown:
            if stop():
                return
            done += catalog.unit(slot).nbytes
            advance(done)
