"""``tc plan``: how a model would be split, without loading its weights."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from truecluster.api import RequestError

from . import api as http
from . import memory as m
from . import options as o
from . import sources
from .output import print_json


def plan(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="REF",
            help=f"What to plan for.  [default: {o.DEFAULT_MODEL}; with --url, what the cluster runs, as it runs it]",
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICE[:MEMORY][@SPEED]",
            help="A node, what is free on it, and how much of weights it reads in a second, such as cuda:8GB, "
            "cpu:500MB, cpu:4GiB@20GB/s or cpu; repeat it.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Plan over the nodes of the cluster whose API is there, http://HOST:PORT."),
    ] = None,
    api_key: http.Key = None,
    arch: o.Arch = None,
    quant: o.Quant = None,
    dtype: o.Dtype = "auto",
    planner: o.PlannerName = "even",
    head: o.Head = "coordinator",
    max_nodes: o.MaxNodes = None,
    context: m.Context = None,
    max_sequences: m.MaxSequences = 8,
    kv_memory_gb: m.KvMemory = None,
    memory_reserve: m.MemoryReserve = 0.1,
    target_node_memory_gb: m.TargetMemory = None,
    work_dir: o.WorkDir = None,
    hf_cache_dir: sources.HfCacheDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; sizes in bytes.")] = False,
) -> None:
    """Show the split of a model over nodes: spans, weights, state, and what memory stays free."""
    if node and url:
        raise RequestError("--node and --url are both given: plan for given nodes or for a cluster's")
    if url and not model and (arch or quant):
        raise RequestError("--url shows what the cluster runs; with --model it plans another, with --arch and --quant")
    if not node and not url:
        raise RequestError(
            "tc plan needs nodes to plan for: give --node once for each, such as --node cuda:8GB, or --url of a cluster"
        )
    given = [parse_node(text) for text in node or ()]
    head_place, wanted = o.check_head(head), o.check_dtype(dtype)
    planner_name, planner_options = o.split_planner(planner)
    room = m.room(context, max_sequences, kv_memory_gb, memory_reserve, target_node_memory_gb)
    from truecluster._cluster.model import ModelOptions
    from truecluster._registry import Registry
    from truecluster.api import Limits

    from . import planning
    from .asking_cluster import ask_cluster
    from .progress import Progress

    view = ask_cluster(url, http.read_key(api_key)) if url else None
    if view is not None and model is None:
        found = planning.running(view)
    else:
        found = planning.planned(
            Registry.installed(),
            ModelOptions(
                reference=model or o.DEFAULT_MODEL,
                arch=arch,
                quant=quant,
                dtype=wanted,
                work_dir=o.work_dir(work_dir),
                open=sources.open_options(Progress(), hf_cache_dir),
            ),
            planning.Question(
                planner=planner_name,
                planner_options=planner_options,
                limits=Limits(head=head_place, max_nodes=max_nodes),
                room=room,
                given=given,
                view=view,
            ),
        )
    if as_json:
        print_json(planning.as_json(found))
    else:
        typer.echo(planning.as_table(found))


AMOUNT = r"(\d{1,9}(?:\.\d+)?)([KMGT])(i?)B"
NODE = re.compile(rf"([a-z]+(?::\d+)?)(?::{AMOUNT})?(?:@{AMOUNT}/s)?", re.IGNORECASE)
POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def parse_node(text: str) -> tuple[str, int | None, float | None]:
    """``cuda:8GB`` → (cuda, 8·10⁹, None), ``cpu:1KiB@20GB/s`` → (cpu, 1024, 20·10⁹); what isn't said is unknown.

    Raises `RequestError`.
    """
    found = NODE.fullmatch(text)
    speed = None if found is None else _bytes(*found.groups()[4:])
    if found is None or speed == 0:
        raise RequestError(
            f"--node {text!r} is not of the form DEVICE[:MEMORY][@SPEED], such as cuda:8GB, cuda:1:8GiB, cpu:500MB, "
            "cpu:4GB@20GB/s or cpu"
        )
    return found[1].lower(), _bytes(*found.groups()[1:4]), None if speed is None else float(speed)


def _bytes(amount: str | None, unit: str, binary: str) -> int | None:
    return None if amount is None else int(float(amount) * (1024 if binary else 1000) ** POWERS[unit.upper()])
