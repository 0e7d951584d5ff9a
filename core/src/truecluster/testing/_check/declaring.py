"""What it costs to import the modules in which plugins declare their offers, which every command does.

A process of its own imports them, and refuses and notes what is heavy: a module may also end the process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

from truecluster.api import PluginError

HEAVY = ("torch", "transformers", "numpy")
PATIENCE_S = 60.0
"""Seconds for importing all of them."""
MARK = "\x1e"
"""What a line of ours begins with, among what plugins print."""


def check_ends(modules: Sequence[str]) -> Mapping[str, str]:
    """Module → what heavy module it imports, and where, for those that import one.

    Raises `PluginError` for a module whose import ends the process or doesn't end.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import {__name__} as found; found.main()", *modules]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as late:
        raise _refused(modules, late.stderr or b"", f"doesn't end within {PATIENCE_S:g} s") from None
    told = _told(done.stderr)
    if len(told) < len(modules):
        raise _refused(modules, done.stderr, f"ends the process, with {done.returncode}")
    return {each["module"]: each["heavy"] for each in told if each["heavy"]}


def _told(stderr: bytes) -> list[dict[str, Any]]:
    lines = stderr.decode(errors="replace").split("\n")
    return [json.loads(line.removeprefix(MARK)) for line in lines if line.startswith(MARK)]


def _refused(modules: Sequence[str], stderr: bytes, how: str) -> PluginError:
    culprit = modules[len(_told(stderr))]
    return PluginError(f"importing {culprit} {how}; a plugin's module only declares: let it run nothing when imported")


class _Watch(MetaPathFinder):
    """Finds nothing, and notes what heavy module was looked for first, and where."""

    def __init__(self, module: str) -> None:
        self._package = module.partition(".")[0]
        self.heavy: str | None = None

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] not in HEAVY:
            return
        self.heavy = self.heavy or f"{fullname} at {self._place()}"
        raise ModuleNotFoundError(f"{fullname} is too heavy for a module that only declares", name=fullname)

    def _place(self) -> str:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] != self._package:
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def main() -> None:
    """Say a line for each module on standard error as soon as it is imported; what fails there others tell."""
    for module in sys.argv[1:]:
        watch = _Watch(module)
        sys.meta_path.insert(0, watch)
        with suppress(Exception, SystemExit):
            importlib.import_module(module)
        sys.meta_path.remove(watch)
        line = json.dumps({"module": module, "heavy": watch.heavy})
        print(f"\n{MARK}{line}", file=sys.__stderr__, flush=True)
    os._exit(0)  # whatever threads a plugin has left behind
