"""From a kind and a name to a folder that pip installs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import attrs

from truecluster._registry import Registry
from truecluster.api import PluginError

from .kinds import KINDS
from .names import Names, check
from .rendering import render


@attrs.frozen
class Made:
    """What `create` wrote: ``files`` in ``folder``, of the plugin with such ``names``."""

    folder: Path
    names: Names
    files: tuple[PurePosixPath, ...]


def create(kind: str, name: str, into: Path, registry: Registry) -> Made:
    """Write the package of a new plugin as a folder in ``into``; all of it or nothing.

    Raises `PluginError` for an unknown kind, a name that can't be or is taken, and where nothing can be written.
    """
    if kind == "format":
        raise PluginError("a format comes with a recipe that uses it: tc plugin new quantizer NAME makes both")
    if kind not in KINDS:
        raise PluginError(f"there is no plugin kind {kind!r}; kinds: {', '.join(KINDS)}")
    names = check(name, kind, registry)
    folder = into / names.module
    if not into.is_dir():
        raise PluginError(f"there is no folder {into}; make it first, or name another with --into")
    if os.path.lexists(folder):
        raise PluginError(f"{folder} exists already; take another name, or another folder with --into")
    files = render(kind, names, registry)
    try:
        _write(files, folder)
    except OSError as error:
        raise PluginError(
            f"{folder} can't be written: {error.strerror or error}; name another folder with --into"
        ) from error
    return Made(folder, names, tuple(sorted(files)))


def _write(files: Mapping[PurePosixPath, str], folder: Path) -> None:
    """Under another name until it is whole, so that an interruption leaves nothing behind."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        for path, text in files.items():
            file = unfinished / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
