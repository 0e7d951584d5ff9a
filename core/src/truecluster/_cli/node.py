"""``tc node``: a worker."""

from __future__ import annotations

import re
import socket
import sys
from functools import partial
from typing import Annotated

import typer

from truecluster.api import RequestError

from . import addresses as a
from . import life
from . import memory as m
from . import options as o
from . import storage as s
from .endings import Endings

NAME = r"[\x21-\x7e]{1,255}"


def node(
    cluster_host: a.ClusterHost = "127.0.0.1",
    cluster_port: a.ClusterPort = None,
    key: o.Key = None,
    key_file: o.KeyFile = None,
    device: o.Device = "auto",
    node_id: Annotated[
        str | None, typer.Option(metavar="TEXT", help="This node's name.  [default: the host's]")
    ] = None,
    max_memory_gb: Annotated[
        float | None,
        typer.Option("--max-memory-gb", metavar="F", help="Most memory, in GB, for weights and state here."),
    ] = None,
    threads: o.Threads = None,
    work_dir: o.WorkDir = None,
    cache_max_gb: s.CacheMax = s.DEFAULT_GB,
    transport: o.Transport = "tcp",
    edge_host: a.EdgeHost = None,
    edge_port: a.EdgePort = 0,
    advertise_host: a.AdvertiseHost = None,
    join_timeout: life.JoinTimeout = life.JOIN,
    log_level: o.LogLevel = "info",
    join_from_stdin: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Join a cluster and host the layers it assigns. Needs no model files."""
    o.set_log_level(log_level)
    o.let_idle_threads_sleep()
    given = None if join_from_stdin else o.read_key(key, key_file)
    if given is None and not join_from_stdin:
        raise RequestError("a node needs the cluster's key: give it with --key-file or TRUECLUSTER_KEY")
    host, port = a.cluster_address(cluster_host, cluster_port)
    edges = a.edge_address(edge_host, edge_port, advertise_host)
    name = check_id(node_id) if node_id is not None else own_name()
    max_memory = m.in_bytes("--max-memory-gb", max_memory_gb)
    cache = s.limit(cache_max_gb)
    with Endings():
        from truecluster._cluster.child import while_parent_lives
        from truecluster._cluster.local import Join
        from truecluster._node.transports import Transports
        from truecluster._node.worker import Node, NodeOptions
        from truecluster._registry import Registry

        from .running import run

    join = Join.read(sys.stdin.buffer) if join_from_stdin else Join(host=host, port=port, key=given or "")
    if join is None:
        return
    registry = Registry.installed()
    if o.reaches_only_here(registry, transport):
        raise RequestError(f"--transport {transport} reaches only one process, and a node is one: leave it out")
    transports = Transports(registry)
    chosen = NodeOptions(
        host=join.host,
        port=join.port,
        key=join.key.encode(),
        node_id=name,
        any_id=node_id is None,
        work_dir=o.work_dir(work_dir),
        cache=cache,
        device=device,
        threads=threads,
        transport=transport,
        max_memory=max_memory,
        edges=edges,
        join_timeout=0.0 if join_from_stdin else join_timeout,
    )
    serve = Node(registry, chosen, transports).serve
    try:
        with Endings() as endings:
            run(endings, partial(while_parent_lives, serve) if join_from_stdin else serve)
    finally:
        transports.close()


def check_id(node_id: str) -> str:
    """Raises `RequestError` for a name that can't be used."""
    if re.fullmatch(NAME, node_id) is None:
        raise RequestError(f"--node-id {node_id!r} can't be used: give 1 to 255 ASCII characters without spaces")
    return node_id


def own_name() -> str:
    """This host's, as far as it can be a node's."""
    return re.sub(r"[^\x21-\x7e]+", "-", socket.gethostname())[:255] or "node"
