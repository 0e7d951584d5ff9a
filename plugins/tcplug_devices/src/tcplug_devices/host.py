"""The machine itself: its memory, its threads, and what devices share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil  # type: ignore[import-untyped]
import torch

from truecluster.api import DeviceContext, DeviceInfo, NodeError, OutOfMemory

from .cgroup import room


def memory() -> tuple[int, int]:
    """Total and free bytes that this process may use: the machine's, or less where its control group is bounded."""
    machine = psutil.virtual_memory()
    bounds = room()
    total = min([machine.total, *(limit for limit, _ in bounds)])
    return total, min([machine.available, total, *(free for _, free in bounds)])


@contextmanager
def computing(device: DeviceContext, threads: int | None) -> Iterator[None]:
    """Without gradients, on ``threads`` host threads (``None``: as they are); both are put back at the end.

    torch keeps the number once per process and once per calling thread: threads that begin later take it over too.
    Raises `OutOfMemory` where ``device``, or the host, has no memory left.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise OutOfMemory(explained(device, error)) from error
    finally:
        if threads is not None:
            torch.set_num_threads(before)


def ran_out(error: Exception) -> bool:
    """Whether an error says that memory ran out, in the words of CUDA, Metal, or the host's allocator."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(
        words in str(error) for words in ("out of memory", "ALLOC_FAILED", "DefaultCPUAllocator", "Invalid buffer size")
    )


def explained(device: DeviceContext, error: Exception) -> str:
    """How much there is, what was asked for, and what to do."""
    sizes = ["unknown" if size is None else f"{size / 1e6:.1f} MB" for size in device.memory()]
    words = " ".join(str(error).split())
    return (
        f"{device.id} ran out of memory: {sizes[1]} of {sizes[0]} are free ({words[:200] or type(error).__name__}); "
        "choose a smaller --quant, a smaller --context, or let more nodes share the model"
    )


def find(id: str, kind: str, there: Sequence[DeviceInfo]) -> DeviceInfo:
    """The device named ``id``; the kind alone names the first. Raises `NodeError` naming the devices there are."""
    for device in there:
        if id in (device.id, kind):
            return device
    known = ", ".join(device.id for device in there) or f"no {kind} device on this machine"
    raise NodeError(f"device {id!r} doesn't exist; there is {known}; choose one of these or --device auto")


def checked_threads(threads: int | None) -> int | None:
    """Raises `NodeError` where the number makes no sense."""
    if threads is not None and threads < 1:
        raise NodeError(f"{threads} threads can't compute; give --threads 1 or more")
    return threads
