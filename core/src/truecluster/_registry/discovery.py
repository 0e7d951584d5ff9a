"""Which plugins are installed: metadata only, one scan, nothing imported."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, distributions

import attrs

from truecluster.api import PluginError

from .failures import PluginFailure

GROUP = "truecluster.plugins"


@attrs.frozen
class Found:
    """One entry point: the ``module`` that a distribution declares as a plugin under ``entry``."""

    distribution: str
    version: str
    entry: str
    module: str


@attrs.frozen
class Scan:
    """What was found, and which distributions have metadata that can't be read."""

    found: tuple[Found, ...]
    failures: tuple[PluginFailure, ...]


def scan(allow: Collection[str] | None, deny: Collection[str]) -> Scan:
    """Every plugin on ``sys.path``, of a name that occurs twice the one that would be imported.

    ``allow`` and ``deny`` are names of distributions. Raises `PluginError` for an allowed one that isn't installed.
    """
    found: dict[str, tuple[Found, ...]] = {}
    failures = []
    for distribution in distributions():
        try:
            for name, entries in _plugin(distribution):
                found.setdefault(name, entries)
        except Exception as error:
            failures.append(PluginFailure(_folder(distribution), "of unknown version", error))
    _check_installed(allow or (), found)
    denied, allowed = set(map(normalized, deny)), set(map(normalized, found if allow is None else allow))
    chosen = [name for name in sorted(found) if name in allowed - denied]
    return Scan(tuple(entry for name in chosen for entry in found[name]), tuple(failures))


def normalized(name: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _plugin(distribution: Distribution) -> Iterator[tuple[str, tuple[Found, ...]]]:
    """Name and entry points; nothing for a distribution that is no plugin. Reads names and versions only of plugins."""
    if GROUP not in (distribution.read_text("entry_points.txt") or ""):
        return
    entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
    name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    if not (name and version):
        raise PluginError("its metadata has no name or no version; install it again")
    if entries:
        yield normalized(name), tuple(Found(name, version, entry.name, entry.value) for entry in entries)


def _folder(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", distribution))


def _check_installed(wanted: Collection[str], found: Collection[str]) -> None:
    missing = [name for name in wanted if normalized(name) not in found]
    if missing:
        installed = ", ".join(sorted(found)) or "none"
        raise PluginError(f"no plugin named {', '.join(missing)} is installed; installed: {installed}")
