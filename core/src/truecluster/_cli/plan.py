"""``tc plan``: how a model would be split, without loading its weights."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from truecluster.api import RequestError

from . import options as o


def plan(
    model: o.Model = o.DEFAULT_MODEL,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="DEVICE[:MEMORY]", help="A node, such as cuda:8GB or cpu:4GB or cpu; repeat it."),
    ] = None,
    arch: o.Arch = None,
    quant: o.Quant = None,
    dtype: o.Dtype = "auto",
    planner: o.PlannerName = "even",
    head: o.Head = "coordinator",
    max_nodes: o.MaxNodes = None,
    work_dir: o.WorkDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; sizes in bytes.")] = False,
) -> None:
    """Show the split of a model over given nodes: spans, weights, state, and what memory stays free."""
    if not node:
        raise RequestError("tc plan needs nodes to plan for: give --node once for each, such as --node cuda:8GB")
    nodes = [parse_node(text, number) for number, text in enumerate(node, 1)]
    head_place, wanted = o.check_head(head), o.check_dtype(dtype)
    planner_name, planner_options = o.split_planner(planner)
    from truecluster._cluster.model import ModelOptions
    from truecluster._registry import Registry
    from truecluster.api import Limits, OpenOptions

    from . import planning

    rows = planning.rows(
        Registry.installed(),
        ModelOptions(
            reference=model,
            arch=arch,
            quant=quant,
            dtype=wanted,
            work_dir=o.work_dir(work_dir),
            open=OpenOptions(say=o.say),
        ),
        planner_name,
        planner_options,
        nodes,
        Limits(head=head_place, max_nodes=max_nodes),
    )
    typer.echo(planning.as_json(rows) if as_json else planning.as_table(rows))


NODE = re.compile(r"([a-z]+(?::\d+)?)(?::(\d{1,9}(?:\.\d+)?)([KMGT]B))?", re.IGNORECASE)
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_node(text: str, number: int) -> tuple[str, str, int | None]:
    """``cuda:8GB`` → (node-1, cuda, 8·10⁹); without a size the memory is unknown. Raises `RequestError`."""
    found = NODE.fullmatch(text)
    if found is None:
        raise RequestError(f"--node {text!r} is not of the form DEVICE[:MEMORY], such as cuda:8GB, cuda:1:8GB or cpu")
    device, amount, unit = found.groups()
    memory = None if amount is None else int(float(amount) * UNITS[unit.upper()])
    return f"node-{number}", device, memory
