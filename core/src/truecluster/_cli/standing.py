"""What ``tc status`` prints of ``GET /cluster``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from truecluster.api import AddressError

from .columns import aligned, scaled

View = Mapping[str, Any]
MB = 1e6
NODES = ("NODE", "DEVICE", "STATE", "SPAN", "WEIGHTS MB", "SENT MB", "STATE MB", "FREE MB", "STEPS", "BUSY %")
EDGES = ("FROM", "TO", "CARRIES", "ROUTE", "MB")


def as_text(view: View) -> str:
    """For a reader. Raises `AddressError` for a view that another version made."""
    try:
        blocks = [block for block in map("\n".join, _blocks(view)) if block]
    except (KeyError, TypeError) as error:
        raise AddressError(f"the cluster's answer isn't of this version: {error!r}; update one of the two") from None
    return "\n\n".join(blocks)


def _blocks(view: View) -> Iterator[list[str]]:
    yield [_headline(view), _work(view)]
    yield aligned([NODES, *_hosts(view)], words=4) if view["nodes"] else ["no node has joined"]
    yield aligned([EDGES, *map(_edge, view["edges"])], words=4) if view["edges"] else []
    yield [f"{each['task']}: {scaled(each['done'], MB)} of {scaled(each['total'], MB)} MB" for each in view["progress"]]
    yield ["went wrong, the latest first:", *map(_fault, view["faults"])] if view["faults"] else []


def _headline(view: View) -> str:
    run = view["run"]
    what = f"run {run['number']}, {run['steps']:,} steps, " if run else ""
    return _plain(f"{view['model']}: {view['state']}, {what}up {_lasting(view['uptime_seconds'])}")


def _work(view: View) -> str:
    requests, pages, tokens = view["requests"], view["pages"], view["tokens"]
    stalled = view["steps"]["stalled_seconds"]
    waits = f"; no step was answered for {stalled:.0f} s" if stalled is not None and stalled >= 1 else ""
    speed = f"{scaled(tokens['generated_per_second'], 1)} a second over the last 10 s"
    return (
        f"{requests['running']} running, {requests['waiting']} waiting, {sum(requests['ended'].values()):,} ended; "
        f"{pages['held']} of {pages['total']} pages held; {tokens['generated']:,} tokens generated, {speed}{waits}"
    )


def _hosts(view: View) -> Iterator[tuple[str, ...]]:
    """A line for every stage, then one for every node that hosts none."""
    nodes = {node["id"]: node for node in view["nodes"]}
    shares = {share["node"]: share for share in view["plan"]["stages"]} if view["plan"] else {}
    for stage in view["stages"]:
        node, share = nodes.get(stage["node"], {}), shares.get(stage["node"], {})
        yield (
            stage["node"],
            share.get("device") or node.get("device") or "-",
            node.get("state", "-"),
            stage["span"],
            scaled(stage["weights"], MB),
            scaled(stage["sent_weights"], MB),
            scaled(share.get("state"), MB),
            scaled(share.get("margin"), MB),
            f"{stage['steps']:,}",
            scaled(stage["busy_share"], 0.01),
        )
    hosting = {stage["node"] for stage in view["stages"]}
    for name, node in nodes.items():
        if name not in hosting:
            yield name, node["device"], node["state"], "-", "-", "-", "-", scaled(node["free"], MB), "-", "-"


def _edge(edge: View) -> tuple[str, ...]:
    return edge["from"], edge["to"], edge["kind"], edge["route"] or "inside", scaled(edge["bytes"], MB)


def _fault(fault: View) -> str:
    times = f" ({fault['count']} times)" if fault["count"] > 1 else ""
    return _plain(f"  {_lasting(fault['seconds_ago'])} ago: {fault['message']}{times}")


def _plain(text: str) -> str:
    """Nothing in it moves a terminal's cursor."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _lasting(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
