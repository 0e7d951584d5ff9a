"""The body of ``tc plugin new``."""

from __future__ import annotations

from pathlib import Path

import typer

from truecluster._registry import Registry
from truecluster._scaffold import create


def write(kind: str, name: str, into: Path, registry: Registry) -> None:
    """Write the package and say what to do with it."""
    made = create(kind, name, into, registry)
    typer.echo(f"made {made.folder}, {len(made.files)} files:")
    for path in made.files:
        typer.echo(f"  {path}")
    typer.echo("now:")
    typer.echo(f"  pip install -e {made.folder}")
    typer.echo(f"  tc plugin check {kind}/{made.names.offer}")
