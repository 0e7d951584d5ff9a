"""``tc plugin``: what is installed, and whether it keeps its contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from truecluster._registry import KINDS, Registry, Selection
from truecluster._registry.offers import clash

from . import plugin_check, plugin_info, plugin_report
from .output import print_json

app = typer.Typer(help="Show and check the installed plugins.", no_args_is_help=True, rich_markup_mode=None)

NEW = [kind for kind in KINDS if kind != "format"]
"""What packages are made of: a format comes with a recipe that uses it."""
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback()
def group() -> None:
    """Show and check the installed plugins."""


@app.command("list")
def list_offers(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"Only one of: {', '.join(KINDS)}.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what the installed plugins offer, by kind, and name those that fail."""
    registry = _surveyed()
    kinds = list(KINDS) if kind is None else [kind]
    clashes = [group for each in kinds for group in registry.conflicts(each)]
    clashing = {offer for group in clashes for offer in group}
    facts = [plugin_info.summary(offer, offer in clashing) for each in kinds for offer in registry.offers(each)]
    if as_json:
        _print_json({"offers": facts, "failures": [plugin_info.failure_facts(f) for f in registry.failures]})
    else:
        failed = [f"a plugin failed: {failure}" for failure in registry.failures]
        _print_table(facts, [*failed, *map(clash, clashes)])
    registry.check_strict()


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An offer's name, KIND/NAME, or a distribution.")],
    as_json: AsJson = False,
) -> None:
    """Show all there is to know of an offer or a distribution, and what is wrong with it.

    Imports what it shows. Ends with 2 where something is wrong.
    """
    registry = _surveyed()
    shown = plugin_info.find(registry, name)
    if as_json:
        _print_json(shown)
    else:
        typer.echo(plugin_info.as_text(shown))
    registry.check_strict()
    if shown["failures"] or any(offer["problem"] for offer in shown["offers"]):
        raise typer.Exit(2)


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An offer's name, KIND/NAME, or a distribution.")],
    as_json: AsJson = False,
    only: Annotated[str, typer.Option(metavar="TEST", help="Check this rule alone, by its test's name.")] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest that one case of one rule may take, in seconds.")
    ] = 120,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A line on standard error for each case as it ends.")
    ] = False,
) -> None:
    """Check that an offer, or all of a distribution's, keeps the contract of its kind.

    Runs the plugin in a process of its own. Ends with 0 where every rule is kept, 1 where one is broken, 2 where it
    can't be checked. Needs truecluster[testing].
    """
    registry = Registry(Selection.from_environment())
    registry.discover()
    found = plugin_check.verdicts(registry, name, only, timeout, verbose)
    if as_json:
        _print_json(plugin_report.facts(found))
    else:
        typer.echo(plugin_report.as_text(found))
    code = plugin_report.exit_code(found)
    if code:
        raise typer.Exit(code)


@app.command("new")
def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(NEW)}.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What a user will type to choose it, such as mine.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the folder tcplug_NAME.")] = Path(),
) -> None:
    """Write the package of a new plugin: a working implementation to start from, with its contract test.

    Ends with 2, and writes nothing, where the name can't be had.
    """
    from .plugin_new import write

    write(kind, name, into, _surveyed())


def _surveyed() -> Registry:
    """What is installed and selected, with the plugins that fail, also where they may not."""
    registry = Registry(Selection.from_environment())
    registry.discover()
    registry.load()
    return registry


def _print_json(value: dict[str, Any]) -> None:
    import json

    print_json(json.dumps(value, indent=2))


def _print_table(facts: list[dict[str, Any]], problems: list[str]) -> None:
    header = ("KIND", "NAME", "DISTRIBUTION", "VERSION", "SUMMARY")
    rows = [header, *(tuple(_cell(fact, column.lower()) for column in header) for fact in facts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for problem in problems:
        typer.echo(f"tc: {problem}", err=True)


def _cell(fact: dict[str, Any], column: str) -> str:
    if column == "summary" and fact["conflict"]:
        return "(clashes with another offer)"
    return str(fact[column])
