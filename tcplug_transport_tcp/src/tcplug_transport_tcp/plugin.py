"""Offers the TCP transport."""

from truecluster.api import TransportSpec, hookimpl


@hookimpl
def truecluster_transports():  # type: ignore[no-untyped-def]
    yield TransportSpec(
        name="tcp",
        target="tcplug_transport_tcp.transport:TcpTransport",
        summary="TCP streams, and direct TCP edges between stages.",
        streams=True,
        edges=True,
    )
