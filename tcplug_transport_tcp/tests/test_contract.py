"""The contract of transports."""

from __future__ import annotations

from truecluster.testing.transport import TransportContract


class TestContract(TransportContract):
    offer = "tcp"
