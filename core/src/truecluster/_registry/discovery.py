"""Which plugins are installed: metadata only, one scan, nothing imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, distributions

import attrs

from truecluster.api import PluginError

from .failures import PluginFailure
from .selection import Selection, normalized
from .suggest import near

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
    """What was found, what of it the user left out, and which distributions have metadata that can't be read."""

    found: tuple[Found, ...]
    left_out: tuple[Found, ...]
    failures: tuple[PluginFailure, ...]


def scan(selection: Selection) -> Scan:
    """Every plugin on ``sys.path``, of a name that occurs twice the one that would be imported.

    Raises `PluginError` for a name of the selection that isn't installed.
    """
    found: dict[str, tuple[Found, ...]] = {}
    failures = []
    for distribution in distributions():
        try:
            for name, entries in _plugin(distribution):
                found.setdefault(name, entries)
        except Exception as error:
            failures.append(PluginFailure(_folder(distribution), "of unknown version", error))
    _check_installed("--plugins", selection.allow or (), found)
    _check_installed("--without-plugins", selection.deny, found)
    everything = [entry for name in sorted(found) for entry in found[name]]
    chosen = tuple(entry for entry in everything if selection.takes(entry.distribution))
    return Scan(chosen, tuple(entry for entry in everything if entry not in chosen), tuple(failures))


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


def _check_installed(switch: str, wanted: Collection[str], found: Collection[str]) -> None:
    missing = [name for name in wanted if normalized(name) not in found]
    if missing:
        parts = [f"{switch}: no plugin named {', '.join(missing)} is installed"]
        parts += dict.fromkeys(filter(None, (near(normalized(name), found, "tcplug-") for name in missing)))
        raise PluginError("; ".join([*parts, f"installed: {', '.join(sorted(found)) or 'none'}"]))
