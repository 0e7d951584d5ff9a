"""The two ends of an edge within a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from truecluster.api import DeviceContext, Edge, EdgeBroken, EdgeTerms, Place, TransportError

from .channel import Channel, Parcel, Side


class MemoryEdge(Edge):
    """``side``'s end of ``channel``. Tensors are copied when sent, and once more to where they belong."""

    def __init__(self, channel: Channel, side: Side, terms: EdgeTerms, device: DeviceContext | None) -> None:
        self._channel = channel
        self._side = side
        self._terms = terms
        self._device = device
        self._end: TransportError | None = None

    def send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        self._whole(self._send, header, tensors)

    def recv(self, place: Place) -> bytes:
        header: bytes = self._whole(self._recv, place)
        return header

    def abort(self) -> None:
        self._channel.leave(self._side)

    def close(self) -> None:
        self._channel.leave(self._side)

    def _whole(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Whatever interrupts a call is the end of the edge, and wakes the peer."""
        if self._end is not None:
            raise self._end
        try:
            return call(*arguments)
        except BaseException as error:
            self._end = error if isinstance(error, TransportError) else self._broken("it failed earlier")
            self._channel.leave(self._side)
            raise

    def _send(self, header: bytes, tensors: Sequence[torch.Tensor]) -> None:
        pieces = [_bytes(self._on_host(tensor)) for tensor in tensors]
        payload = torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.uint8)
        self._channel.put(Parcel(bytes(header), payload, len(header) + payload.nbytes))

    def _recv(self, place: Place) -> bytes:
        header, payload, _ = self._channel.take()
        if len(header) > self._terms.max_header:
            raise self._broken(f"a header of {len(header)} bytes, at most {self._terms.max_header} allowed")
        self._fill(place(header), payload)
        return header

    def _fill(self, places: Sequence[torch.Tensor], payload: torch.Tensor) -> None:
        room = sum(tensor.nbytes for tensor in places)
        if payload.nbytes != room:
            raise self._broken(f"a payload of {payload.nbytes} bytes where {room} are due")
        for tensor in places:
            _bytes(tensor).copy_(payload[: tensor.nbytes])
            payload = payload[tensor.nbytes :]

    def _on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return tensor
        if self._device is None:
            raise ValueError(f"a tensor on {tensor.device} needs the edge to be opened with its device")
        return self._device.download(tensor).contiguous()

    def _broken(self, what: str) -> EdgeBroken:
        return EdgeBroken(f"edge {self._terms.edge}: {what}")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The flat bytes of a contiguous tensor, not copied."""
    if not tensor.is_contiguous():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} that is not contiguous can't cross an edge")
    if not tensor.numel():  # whose stride may be anything
        return torch.empty(0, dtype=torch.uint8)
    return tensor.detach().view(-1).view(torch.uint8)
