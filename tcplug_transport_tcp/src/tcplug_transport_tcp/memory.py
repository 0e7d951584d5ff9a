"""Tensors as the bytes that sockets read and fill."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from truecluster.api import DeviceContext


def view(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous host tensor, not copied: valid as long as the tensor is held."""
    if not tensor.is_contiguous():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} that is not contiguous can't cross an edge")
    return _window(tensor.data_ptr(), tensor.nbytes)


@lru_cache(maxsize=256)  # a stage's tensors come to the same addresses again and again, and a window costs 20 µs
def _window(address: int, size: int) -> memoryview:
    """It holds nothing, so it may well outlive what it once showed."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B") if size else memoryview(b"")


def on_host(tensor: torch.Tensor, device: DeviceContext | None) -> torch.Tensor:
    """A tensor's values in host memory, complete."""
    if tensor.is_cpu:
        return tensor
    return _context(tensor, device).download(tensor).contiguous()


def landing(tensor: torch.Tensor) -> torch.Tensor:
    """Where the bytes for ``tensor`` are received: the tensor itself where it lies in host memory."""
    return tensor if tensor.is_cpu else tensor.new_empty(tensor.shape, device="cpu")


def deliver(landed: torch.Tensor, tensor: torch.Tensor, device: DeviceContext | None) -> None:
    """Bring what has landed to where it belongs."""
    if landed is not tensor:
        tensor.copy_(_context(tensor, device).upload(landed))


def _context(tensor: torch.Tensor, device: DeviceContext | None) -> DeviceContext:
    if device is None:
        raise ValueError(f"a tensor on {tensor.device} needs the edge to be opened with its device")
    return device
