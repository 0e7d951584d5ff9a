"""``tc node``: a worker."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer

from truecluster.api import RequestError

from . import options as o


def node(
    cluster_host: Annotated[str, typer.Option(metavar="HOST", help="The coordinator's address.")] = "127.0.0.1",
    cluster_port: Annotated[int, typer.Option(min=1, max=65535, metavar="PORT", help="Its port for nodes.")] = 7001,
    key: o.Key = None,
    key_file: o.KeyFile = None,
    device: o.Device = "auto",
    node_id: Annotated[
        str | None, typer.Option(metavar="TEXT", help="This node's name.  [default: the host's]")
    ] = None,
    threads: o.Threads = None,
    work_dir: o.WorkDir = None,
    transport: o.Transport = "tcp",
    log_level: o.LogLevel = "info",
    join_from_stdin: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Join a cluster and host the layers it assigns. Needs no model files."""
    o.set_log_level(log_level)
    o.let_idle_threads_sleep()
    given = None if join_from_stdin else o.read_key(key, key_file)
    if given is None and not join_from_stdin:
        raise RequestError("a node needs the cluster's key: give it with --key-file or TRUECLUSTER_KEY")
    import socket

    import anyio

    from truecluster._cluster.child import while_parent_lives
    from truecluster._cluster.local import Join
    from truecluster._node.transports import Transports
    from truecluster._node.worker import Node, NodeOptions
    from truecluster._registry import Registry

    join = (
        Join.read(sys.stdin.buffer) if join_from_stdin else Join(host=cluster_host, port=cluster_port, key=given or "")
    )
    if join is None:
        return
    registry = Registry.installed()
    transports = Transports(registry)
    chosen = NodeOptions(
        host=join.host,
        port=join.port,
        key=join.key.encode(),
        node_id=node_id or socket.gethostname(),
        work_dir=o.work_dir(work_dir),
        device=device,
        threads=threads,
        transport=transport,
    )
    serve = Node(registry, chosen, transports).serve
    try:
        anyio.run(partial(while_parent_lives, serve) if join_from_stdin else serve)
    finally:
        transports.close()
