"""The body of ``tc cluster``."""

from __future__ import annotations

import anyio

from truecluster._node.errors import one_error
from truecluster._node.transports import Transports
from truecluster._registry import Registry
from truecluster._serve.server import listen
from truecluster._wire.addresses import shown

from .addresses import to_dial
from .api import Api, invitation
from .hosting import Hosted, HostOptions, hosting, serve_api


async def serve_cluster(registry: Registry, options: HostOptions, api: Api, show_key: bool) -> None:
    """Serve until interrupted, or until the engine fails for good."""
    transports = Transports(registry)
    try:
        with one_error(), listen(api.host, api.port) as sock:
            async with anyio.create_task_group() as outside, hosting(registry, transports, options) as hosted:
                _introduce(hosted, options, sock.getsockname()[:2], show_key)
                outside.start_soon(serve_api, hosted, api, sock)  # ends after the engine, which ends its requests
                await hosted.failed()
    finally:
        transports.close()


def _introduce(hosted: Hosted, options: HostOptions, api: tuple[str, int], show_key: bool) -> None:
    host, port = hosted.address
    key = f"TRUECLUSTER_KEY={options.cluster.key.decode()} " if show_key else ""
    options.report.say(invitation(*api))
    options.report.say(f"API on http://{shown(*api)}/v1; on each node, run:")
    options.report.say(f"  {key}tc node --cluster-host {to_dial(host)} --cluster-port {port}")
    if not show_key:
        options.report.say("  with the same key, by --key-file or TRUECLUSTER_KEY")
