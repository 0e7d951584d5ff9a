"""``tc doctor``: what this machine is able to do, and what to do about what it isn't."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from truecluster._registry import Registry, Selection

from . import options as o
from .output import print_json

if TYPE_CHECKING:
    from .findings import Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    work_dir: o.WorkDir = None,
) -> None:
    """Look at this machine, its devices, plugins and model sources, and say what to do about what is wrong.

    Works while plugins are broken, and takes a minute at most where the network or a device doesn't answer. Ends with
    1 where something fails; a warning is something that can't be used, or not well.
    """
    from .findings import FAIL, Asked, survey

    registry = Registry(Selection.from_environment())
    registry.discover()
    registry.load()
    found: list[tuple[str, Finding]] = []
    for area, finding in survey(Asked(registry, o.work_dir(work_dir))):
        if not as_json:
            _show(area, finding, new=not found or found[-1][0] != area)
        found.append((area, finding))
    states = Counter(finding.state for _, finding in found)
    if as_json:
        findings = [{"area": area, **attrs.asdict(finding)} for area, finding in found]
        print_json(json.dumps({"healthy": not states[FAIL], "findings": findings}, indent=2))
    else:
        typer.echo(f"\n{states['ok']} well, {states['warn']} to know of, {states['fail']} to mend")
    sys.stdout.flush()
    if states[FAIL]:
        raise typer.Exit(1)


def _show(area: str, finding: Finding, new: bool) -> None:
    if new:
        typer.echo(area)
    typer.echo(f"  {finding.state:<4}  {finding.name}: {finding.text}")
    if finding.remedy:
        typer.echo(f"        -> {finding.remedy}")
