"""What a node says first, for tests that change what matters to them."""

from __future__ import annotations

from truecluster._wire import messages as wire

HELLO = wire.Hello(
    node_id="w1",
    hostname="here",
    truecluster="0",
    python_version="3",
    torch_version="2",
    platform="linux",
    devices=(),
    selected_device="cpu",
    pid=7,
)
