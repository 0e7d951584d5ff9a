"""Distributions of plugins, as pip would have left them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

PREAMBLE = "from truecluster.api import *\n"


def write_distribution(folder: Path, name: str, version: str, modules: dict[str, str]) -> None:
    """Write metadata and modules, each with all of ``truecluster.api``; the first module is the plugin's."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    entry = next(iter(modules)).removesuffix(".py")
    (info / "entry_points.txt").write_text(f"[truecluster.plugins]\nmain = {entry}\n")
    for file, source in modules.items():
        (folder / file).write_text(PREAMBLE + dedent(source))
