"""``tc status``: how a running cluster does."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from . import api as http
from .output import print_json


def status(
    url: Annotated[
        str, typer.Option(metavar="URL", help="The cluster's API, http://HOST:PORT.")
    ] = "http://127.0.0.1:8000",
    api_key: http.Key = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; sizes in bytes, times in seconds (docs/cluster.md).")
    ] = False,
) -> None:
    """Show a running cluster: its nodes and their memory, how busy they are, what goes between them, and faults.

    Sizes are in MB (10^6 bytes); BUSY % is the share of the last ten seconds in which a stage was at work.
    """
    from .asking_cluster import ask_cluster
    from .standing import as_text

    view = ask_cluster(url, http.read_key(api_key))
    if as_json:
        print_json(json.dumps(view, indent=1))
    else:
        typer.echo(as_text(view))
