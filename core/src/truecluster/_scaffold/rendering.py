"""Templates to texts: ``templates/shared`` for every kind, then what the kind has of its own.

A path below a template folder is the path below the package's, with ``.j2`` at its end and other words for some of it
(`_path`): no wheel holds a ``tests`` folder, and build tools leave out what begins with a dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from truecluster import __version__
from truecluster._registry import Registry
from truecluster.api import KernelSpec, PluginError

from .kinds import KINDS
from .names import Names

TEMPLATES = Path(__file__).parent / "templates"


def render(kind: str, names: Names, registry: Registry) -> Mapping[PurePosixPath, str]:
    """Path → text of every file of the package."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Python, TOML and YAML
    )
    facts = _facts(kind, names, registry)
    return {
        _path(file, names): environment.get_template(f"{folder}/{file}").render(facts)
        for folder in ("shared", kind)
        for file in _files(TEMPLATES / folder)
    }


def core_range(version: str) -> str:
    """From ``version`` on, below the next release that may change an interface: 0.y, or x where x isn't 0."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise PluginError(f"truecluster's own version is {version!r}, which has no major and minor number")
    major, minor = int(found[1]), int(found[2])
    return f">={version},<{major + 1}" if major else f">={version},<0.{minor + 1}"


def _facts(kind: str, names: Names, registry: Registry) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": names.offer,
        "module": names.module,
        "distribution": names.distribution,
        "Stem": names.stem,
        "core_range": core_range(__version__),
        "rank": _free_rank(registry),
        **{field: getattr(KINDS[kind], field) for field in ("what", "needs", "checked", "given")},
    }


def _free_rank(registry: Registry) -> int:
    """The lowest that no kernel has, since equal ranks are a conflict."""
    taken = {offer.spec.rank for offer in registry.offers("kernel") if isinstance(offer.spec, KernelSpec)}
    return next(rank for rank in range(1, len(taken) + 2) if rank not in taken)


def _files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.j2")))


def _path(file: str, names: Names) -> PurePosixPath:
    written = file.removesuffix(".j2")
    for word, meant in (("_package", names.module), ("_git", ".git"), ("_checks", "tests")):
        written = written.replace(word, meant)
    return PurePosixPath(written)
