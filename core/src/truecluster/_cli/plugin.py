"""``tc plugin``: what is installed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from truecluster._registry import KINDS, Offer, Registry

app = typer.Typer(help="Show the installed plugins.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Show the installed plugins."""


@app.command("list")
def list_offers(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"Only one of: {', '.join(KINDS)}.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what the installed plugins offer, by kind."""
    registry = Registry.installed()
    kinds = list(KINDS) if kind is None else [kind]
    offers = [offer for each in kinds for offer in registry.offers(each)]
    clashing = {offer for each in kinds for group in registry.conflicts(each) for offer in group}
    if as_json:
        _print_json(registry, [_facts(offer, offer in clashing) for offer in offers])
    else:
        _print_table(registry, [_facts(offer, offer in clashing) for offer in offers])


def _facts(offer: Offer, clashes: bool) -> dict[str, Any]:
    return {
        "kind": offer.kind,
        "name": offer.spec.name,
        "distribution": offer.distribution,
        "version": offer.version,
        "summary": offer.spec.summary,
        "conflict": clashes,
    }


def _print_json(registry: Registry, facts: list[dict[str, Any]]) -> None:
    import json

    failures = [
        {"distribution": f.distribution, "version": f.version, "cause": f"{type(f.cause).__name__}: {f.cause}"}
        for f in registry.failures
    ]
    typer.echo(json.dumps({"offers": facts, "failures": failures}, indent=2))


def _print_table(registry: Registry, facts: list[dict[str, Any]]) -> None:
    header = ("KIND", "NAME", "DISTRIBUTION", "VERSION", "SUMMARY")
    rows = [header, *(tuple(_cell(fact, column.lower()) for column in header) for fact in facts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for failure in registry.failures:
        typer.echo(f"tc: a plugin failed: {failure}", err=True)


def _cell(fact: dict[str, Any], column: str) -> str:
    if column == "summary" and fact["conflict"]:
        return "(name offered twice: can't be chosen; uninstall one)"
    return str(fact[column])
