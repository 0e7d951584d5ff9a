"""``tc cluster``: a coordinator that waits for nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from truecluster.api import RequestError

from . import options as o


def cluster(
    model: o.Model,
    arch: o.Arch = None,
    quant: o.Quant = None,
    dtype: o.Dtype = "auto",
    planner: o.PlannerName = "even",
    transport: o.Transport = "tcp",
    head: o.Head = "coordinator",
    max_nodes: o.MaxNodes = None,
    threads: o.Threads = None,
    work_dir: o.WorkDir = None,
    node_host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on for nodes.")] = "127.0.0.1",
    node_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port for nodes; 0 takes a free one.")
    ] = 7001,
    api_host: o.ApiHost = "127.0.0.1",
    api_port: o.ApiPort = 8000,
    key: o.Key = None,
    key_file: o.KeyFile = None,
    log_level: o.LogLevel = "info",
) -> None:
    """Wait for nodes, split the model over them, and serve an OpenAI-compatible API."""
    o.set_log_level(log_level)
    o.let_idle_threads_sleep()
    given = o.read_key(key, key_file)
    if node_host not in o.LOOPBACK and given is None:
        raise RequestError(
            f"--node-host {node_host} can be reached from other machines and needs a key of yours: "
            "give it with --key-file or TRUECLUSTER_KEY, here and to every node"
        )
    o.check_api_host(api_host)
    head_place, wanted = o.check_head(head), o.check_dtype(dtype)
    planner_name, planner_options = o.split_planner(planner)
    import anyio

    from truecluster._cluster.coordinator import ClusterOptions
    from truecluster._cluster.model import ModelOptions
    from truecluster._registry import Registry
    from truecluster.api import Limits, OpenOptions

    from .hosting import HostOptions
    from .service import serve_cluster
    from .progress import Progress

    host_options = HostOptions(
        model=ModelOptions(
            reference=model,
            arch=arch,
            quant=quant,
            dtype=wanted,
            work_dir=o.work_dir(work_dir),
            open=OpenOptions(say=o.say),
        ),
        cluster=ClusterOptions(
            key=(given or o.new_key()).encode(),
            transport=transport,
            planner=planner_name,
            planner_options=planner_options,
            limits=Limits(head=head_place, max_nodes=max_nodes),
            exact_nodes=max_nodes,
            threads=threads,
        ),
        node_host=node_host,
        node_port=node_port,
        report=Progress(),
    )
    registry = Registry.installed()
    o.check_planner(registry, planner_name, planner_options)
    if o.reaches_only_here(registry, transport):
        raise RequestError(f"--transport {transport} reaches only this process, and no node could join; tc run has it")
    anyio.run(serve_cluster, registry, host_options, api_host, api_port, given is None)
