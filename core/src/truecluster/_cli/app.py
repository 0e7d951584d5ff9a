"""The commands put together, and what an error that reaches the top becomes."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from truecluster.api import TrueClusterError

from . import cluster, doctor, node, plan, plugin, run, status
from .switches import add_switches

app = typer.Typer(
    name="tc",
    help="Run one language model over several ordinary machines.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run.run)
app.command()(cluster.cluster)
app.command()(node.node)
app.command()(plan.plan)
app.command()(status.status)
app.command()(doctor.doctor)
app.add_typer(plugin.app, name="plugin")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"truecluster {version('truecluster')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run one language model over several ordinary machines."""


def main() -> None:
    """Run ``tc`` with the process's arguments.

    Ends the process: 0 done, 1 our failure, 2 the user's mistake, 130 interrupted.
    """
    try:
        add_switches(typer.main.get_command(app))(prog_name="tc")
    except TrueClusterError as error:
        _end(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("TRUECLUSTER_DEBUG") == "1":
            traceback.print_exc()
        _end(f"internal error: {type(error).__name__}: {error} (TRUECLUSTER_DEBUG=1 shows where)", 1)


def _end(message: str, code: int) -> None:
    line = " ".join(message.split())
    print(f"tc: {line}", file=sys.stderr)
    sys.exit(code)
