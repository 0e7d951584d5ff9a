"""``tc cluster``: a coordinator that waits for nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from truecluster._wire.addresses import is_loopback
from truecluster.api import RequestError

from . import addresses as a
from . import api as http
from . import life, sources
from . import memory as m
from . import options as o
from . import storage as s
from .endings import Endings


def cluster(
    model: o.Model,
    arch: o.Arch = None,
    quant: o.Quant = None,
    dtype: o.Dtype = "auto",
    planner: o.PlannerName = "even",
    transport: o.Transport = "tcp",
    head: o.Head = "coordinator",
    min_nodes: life.MinNodes = None,
    max_nodes: life.MaxNodes = None,
    context: m.Context = None,
    max_sequences: m.MaxSequences = 8,
    kv_memory_gb: m.KvMemory = None,
    memory_reserve: m.MemoryReserve = 0.1,
    target_node_memory_gb: m.TargetMemory = None,
    ready_timeout: life.ReadyTimeout = life.READY,
    step_timeout: life.StepTimeout = life.STEP,
    stop_timeout: life.StopTimeout = life.STOP,
    threads: o.Threads = None,
    work_dir: o.WorkDir = None,
    hf_cache_dir: sources.HfCacheDir = None,
    trust_remote_code: sources.TrustRemoteCode = False,
    cache_max_gb: s.CacheMax = s.DEFAULT_GB,
    node_host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on for nodes.")] = "127.0.0.1",
    node_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port for nodes; 0 takes a free one.")
    ] = 7001,
    api_host: http.Host = "127.0.0.1",
    api_port: http.Port = 8000,
    api_key: http.Key = None,
    served_model_name: http.Names = None,
    strict_fields: http.Strict = False,
    generation_defaults: http.Defaults = "openai",
    key: o.Key = None,
    key_file: o.KeyFile = None,
    log_level: o.LogLevel = "info",
) -> None:
    """Wait for nodes, split the model over them, and serve an OpenAI-compatible API."""
    o.set_log_level(log_level)
    o.let_idle_threads_sleep()
    given = o.read_key(key, key_file)
    node_host = a.only_host(node_host, "--node-host", "--node-port")
    if not is_loopback(node_host) and given is None:
        raise RequestError(
            f"--node-host {node_host} can be reached from other machines and needs a key of yours: "
            "give it with --key-file or TRUECLUSTER_KEY, here and to every node"
        )
    api = http.api(api_host, api_port, api_key, served_model_name, strict_fields, generation_defaults)
    least = life.least(min_nodes, max_nodes)
    head_place, wanted = o.check_head(head), o.check_dtype(dtype)
    planner_name, planner_options = o.split_planner(planner)
    room = m.room(context, max_sequences, kv_memory_gb, memory_reserve, target_node_memory_gb)
    with Endings():
        from truecluster._cluster.model import ModelOptions
        from truecluster._cluster.settings import ClusterOptions
        from truecluster._registry import Registry
        from truecluster.api import Limits

        from .hosting import HostOptions
        from .progress import Progress
        from .running import run
        from .service import serve_cluster

    report = Progress()
    host_options = HostOptions(
        model=ModelOptions(
            reference=model,
            arch=arch,
            quant=quant,
            dtype=wanted,
            work_dir=o.work_dir(work_dir),
            cache=s.limit(cache_max_gb),
            open=sources.open_options(report, hf_cache_dir, trust_remote_code),
        ),
        cluster=ClusterOptions(
            key=(given or o.new_key()).encode(),
            transport=transport,
            planner=planner_name,
            planner_options=planner_options,
            limits=Limits(head=head_place, max_nodes=max_nodes),
            room=room,
            min_nodes=least,
            settings=life.settings(ready_timeout, step_timeout, stop_timeout),
            threads=threads,
        ),
        node_host=node_host,
        node_port=node_port,
        report=report,
    )
    registry = Registry.installed()
    o.check_planner(registry, planner_name, planner_options)
    if o.reaches_only_here(registry, transport):
        raise RequestError(f"--transport {transport} reaches only this process, and no node could join; tc run has it")
    with Endings() as endings:
        run(endings, serve_cluster, registry, host_options, api, given is None)
