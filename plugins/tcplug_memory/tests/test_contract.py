"""The contract of transports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tcplug_memory.plugin import truecluster_transports
from tcplug_memory.transport import MemoryTransport

from truecluster.api import TransportSpec
from truecluster.testing.transport import TransportContract


class TestContract(TransportContract):
    @pytest.fixture
    def transport(self) -> Iterator[MemoryTransport]:
        transport = MemoryTransport()
        yield transport
        transport.close()

    @pytest.fixture
    def spec(self) -> TransportSpec:
        return next(truecluster_transports())
