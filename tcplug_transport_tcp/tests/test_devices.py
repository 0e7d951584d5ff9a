"""Tensors of a device that isn't the host go through its context. The device here is torch's own pretence of one."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from tcplug_transport_tcp.memory import deliver, landing, on_host, view


def test_a_host_tensor_is_neither_copied_nor_passed_through_a_device() -> None:
    tensor = torch.arange(3.0)
    assert on_host(tensor, None) is tensor
    assert landing(tensor) is tensor
    view(tensor)[:4] = b"\x00\x00\x80\x3f"
    assert tensor.tolist() == [1.0, 1.0, 2.0]


def test_a_device_tensor_is_downloaded_and_uploaded() -> None:
    tensor = torch.empty(2, 3, device="meta")
    device = Mock()
    device.download.return_value = torch.ones(3, 2).T
    assert on_host(tensor, device).is_contiguous()
    device.download.assert_called_once_with(tensor)
    landed = landing(tensor)
    assert (landed.device.type, landed.shape, landed.dtype) == ("cpu", tensor.shape, tensor.dtype)
    device.upload.return_value = tensor
    deliver(landed, tensor, device)
    device.upload.assert_called_once_with(landed)


def test_a_device_tensor_needs_its_device() -> None:
    with pytest.raises(ValueError, match="meta"):
        on_host(torch.empty(1, device="meta"), None)


def test_a_tensor_that_is_not_contiguous_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        view(torch.zeros(2, 3).T)
