"""``tc run``: everything on this machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from truecluster.api import RequestError

from . import api as http
from . import life, sampling, sources
from . import memory as m
from . import options as o
from . import storage as s


def run(
    prompt: Annotated[
        str | None, typer.Argument(help="What to answer; without it, a chat at a terminal, else standard input.")
    ] = None,
    model: o.Model = o.DEFAULT_MODEL,
    arch: o.Arch = None,
    quant: o.Quant = None,
    dtype: o.Dtype = "auto",
    planner: o.PlannerName = "even",
    transport: o.Transport = "tcp",
    head: o.Head = "coordinator",
    nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Local worker processes.")] = 2,
    min_nodes: life.MinNodes = None,
    max_nodes: life.MaxNodes = None,
    context: m.Context = None,
    max_sequences: m.MaxSequences = 8,
    kv_memory_gb: m.KvMemory = None,
    memory_reserve: m.MemoryReserve = 0.1,
    ready_timeout: life.ReadyTimeout = life.READY,
    step_timeout: life.StepTimeout = life.STEP,
    stop_timeout: life.StopTimeout = life.STOP,
    threads: o.Threads = None,
    device: o.Device = "auto",
    work_dir: o.WorkDir = None,
    hf_cache_dir: sources.HfCacheDir = None,
    trust_remote_code: sources.TrustRemoteCode = False,
    cache_max_gb: s.CacheMax = s.DEFAULT_GB,
    max_tokens: Annotated[int, typer.Option(min=0, metavar="N", help="Most tokens to answer with.")] = 256,
    temperature: sampling.Temperature = None,
    top_p: sampling.TopP = None,
    top_k: sampling.TopK = None,
    min_p: sampling.MinP = None,
    seed: sampling.Seed = None,
    stop: Annotated[list[str] | None, typer.Option(help="Ends the answer; up to four times.")] = None,
    system: Annotated[str | None, typer.Option(help="System message of the chat.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Complete the prompt as it is, without the chat template.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Keep the API up and read no input.")] = False,
    api_host: http.Host = "127.0.0.1",
    api_port: http.Port = 8000,
    api_key: http.Key = None,
    served_model_name: http.Names = None,
    strict_fields: http.Strict = False,
    generation_defaults: http.Defaults = "openai",
    log_level: o.LogLevel = "warning",
) -> None:
    """Run a model split over worker processes of this machine, and answer a prompt, chat, or serve the API."""
    o.set_log_level(log_level)
    o.let_idle_threads_sleep()
    if serve and (prompt is not None or as_json):
        raise RequestError("--serve keeps the API up and answers no prompt: leave out the prompt and --json")
    if raw and system is not None:
        raise RequestError("--raw has no chat template to put --system in; leave one of them out")
    if prompt is not None and not prompt.strip():
        raise RequestError("the prompt is empty; give one, or leave it out to chat")
    api = http.api(api_host, api_port, api_key, served_model_name, strict_fields, generation_defaults)
    started = min(nodes, max_nodes or nodes)
    if min_nodes is not None and min_nodes > started:
        raise RequestError(f"--min-nodes {min_nodes} is more than the {started} that are started; give more --nodes")
    from . import local

    launch = local.Launch(
        model=model,
        arch=arch,
        quant=quant,
        dtype=o.check_dtype(dtype),
        planner=planner,
        transport=transport,
        head=o.check_head(head),
        room=m.room(context, max_sequences, kv_memory_gb, memory_reserve),
        nodes=started,
        min_nodes=min_nodes or started,
        settings=life.settings(ready_timeout, step_timeout, stop_timeout),
        threads=threads,
        device=device,
        work_dir=o.work_dir(work_dir),
        hf_cache_dir=hf_cache_dir,
        trust_remote_code=trust_remote_code,
        cache=s.limit(cache_max_gb),
        log_level=log_level,
    )
    asking = o.Asking(
        max_tokens=max_tokens,
        sampling={"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p, "seed": seed},
        stop=tuple(stop or ()),
        system=system,
        raw=raw,
        as_json=as_json,
    )
    if serve:
        local.serve(launch, api)
    elif prompt is not None:
        local.answer(launch, asking, prompt)
    elif sys.stdin.isatty():
        local.chat(launch, asking)
    else:
        local.answer(launch, asking, o.read_prompt(sys.stdin.buffer.read()))
