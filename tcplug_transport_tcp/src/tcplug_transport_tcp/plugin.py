"""Offers the TCP transport."""

from truecluster.api import TransportSpec, hookimpl


@hookimpl
def truecluster_transports():  # type: ignore[no-untyped-def]
    yield TransportSpec(
        name="tcp",
        target="tcplug_transport_tcp.transport:TcpTransport",
        summary="TCP streams, and TCP edges between stages, direct or relayed.",
        streams=True,
        edges=True,
        relays=True,
    )
