"""The rules of where streams are listened for and dialled."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from truecluster.api import AddressError, PluginError, StreamTransport, TransportSpec

from ._stream_ends import StreamGiven, open_and_close
from .rules import refusal, require


class AddressRules(StreamGiven):
    """An address that is wrong is named at once."""

    def test_streams_that_are_not_offered_are_refused(self, transport: Any, spec: TransportSpec) -> None:
        """Where the spec offers no streams, the target is no `StreamTransport`, or both calls raise `PluginError`."""
        if not spec.streams and isinstance(transport, StreamTransport):
            with refusal(PluginError, of="listen"):
                anyio.run(open_and_close, transport.listen, self.host, 0)
            with refusal(PluginError, of="connect"):
                anyio.run(open_and_close, transport.connect, self.host, 1)

    def test_an_address_in_use_is_named_at_once(self, streams: StreamTransport) -> None:
        """``listen`` on an address in use raises an `AddressError` that names its port; port 0 takes a free one."""

        async def main() -> None:
            async with await streams.listen(self.host, 0) as listener:
                host, port = streams.address(listener)
                with refusal(AddressError, str(port), port=port):
                    await open_and_close(streams.listen, host, port)
                async with await streams.listen(self.host, 0) as other:
                    require(streams.address(other) != (host, port), "another address", streams.address(other))

        self.within_patience(main)

    def test_a_closed_listener_frees_its_address(self, streams: StreamTransport) -> None:
        """Once a listener is closed, its address can be listened on again."""

        async def main() -> None:
            listener = await streams.listen(self.host, 0)
            address = streams.address(listener)
            await listener.aclose()
            async with await streams.listen(*address) as again:
                require(streams.address(again) == address, str(address), streams.address(again))

        self.within_patience(main)

    def test_an_address_where_nobody_listens_is_named(self, streams: StreamTransport) -> None:
        """``connect`` to an address where nobody listens raises an `AddressError` that names its port."""

        async def main() -> None:
            listener = await streams.listen(self.host, 0)
            host, port = streams.address(listener)
            await listener.aclose()
            with refusal(AddressError, str(port), port=port):
                await open_and_close(streams.connect, host, port)

        self.within_patience(main)

    @pytest.mark.parametrize("port", [-1, 65536, 70000])
    def test_a_port_that_does_not_exist_is_named(self, streams: StreamTransport, port: int) -> None:
        """A port below 0 or above 65535 raises an `AddressError` that names it."""

        async def main() -> None:
            with refusal(AddressError, str(port), of="listen", port=port):
                await open_and_close(streams.listen, self.host, port)
            with refusal(AddressError, str(port), of="connect", port=port):
                await open_and_close(streams.connect, self.host, port)

        self.within_patience(main)
