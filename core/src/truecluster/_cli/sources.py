"""Options about where a model comes from and what of it is trusted. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truecluster.api import OpenOptions

if TYPE_CHECKING:
    from .progress import Progress

HfCacheDir = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Folder that models are downloaded to.  [default: the cache of their source]"),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run code from the model's repository, here and only to build a tokenizer that has no tokenizer.json.",
    ),
]


def open_options(report: Progress, hf_cache_dir: Path | None, trust_remote_code: bool = False) -> OpenOptions:
    """How to open what the user named, telling ``report``."""
    return OpenOptions(
        say=report.say,
        task=report.task,
        cache_dir=str(hf_cache_dir.expanduser()) if hf_cache_dir else None,
        trust_remote_code=trust_remote_code,
    )
