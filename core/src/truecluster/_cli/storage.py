"""How much packed weight is kept on disk."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from truecluster.api import RequestError

DEFAULT_GB = 50.0

CacheMax = Annotated[
    float,
    typer.Option(
        "--cache-max-gb",
        metavar="F",
        help="Most packed weights to keep in that folder, in GB. The longest unused go first, those in use stay.",
    ),
]


def limit(gigabytes: float) -> int:
    """In bytes. Raises `RequestError`."""
    if not math.isfinite(gigabytes) or gigabytes < 0:
        raise RequestError(f"--cache-max-gb {gigabytes:g} is no size; give GB, 0 or more")
    return int(gigabytes * 1e9)
