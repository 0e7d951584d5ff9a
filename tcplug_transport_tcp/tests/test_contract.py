"""The contract of transports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tcplug_transport_tcp.plugin import truecluster_transports
from tcplug_transport_tcp.transport import TcpTransport

from truecluster.api import TransportSpec
from truecluster.testing.transport import TransportContract


class TestContract(TransportContract):
    @pytest.fixture
    def transport(self) -> Iterator[TcpTransport]:
        transport = TcpTransport()
        yield transport
        transport.close()

    @pytest.fixture
    def spec(self) -> TransportSpec:
        return next(truecluster_transports())
