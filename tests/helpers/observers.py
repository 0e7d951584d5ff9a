"""Plugins that observe, as folders that ``PYTHONPATH`` may name."""

from __future__ import annotations

from pathlib import Path

HOOK = """
import json, os, threading, time
import attrs
from truecluster.api import hookimpl

@hookimpl
def truecluster_event(event):
    {body}
"""
WRITES = """
    known = dict(attrs.asdict(event), kind=type(event).__name__)
    with open({path!r}, "a") as file:
        file.write(json.dumps(known, default=str) + "\\n")
"""


def write_observer(folder: Path, name: str, body: str) -> None:
    """A distribution ``tcplug-NAME`` whose hook's body is ``body``; it has ``event``."""
    info = folder / f"tcplug_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tcplug-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[truecluster.plugins]\nmain = tcplug_observes_{name}\n")
    (folder / f"tcplug_observes_{name}.py").write_text(HOOK.format(body=body.strip()))
