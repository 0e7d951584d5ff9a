"""Write plugins-index.md, of all first-party plugins: python docs/write_plugins_index.py"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from truecluster._registry import KINDS, Offer, Registry, Selection

ROOT = Path(__file__).parents[1]
INDEX = ROOT / "docs" / "plugins-index.md"
HEAD = """# First-party plugins

Written by `make plugins-index` from the packages' metadata and from what they offer.
"""


def index() -> str:
    """The page. Raises `SystemExit` where a plugin of this checkout isn't installed, or fails."""
    folders = {_name(file.parent): file.parent for file in _manifests()}
    registry = Registry(Selection(allow=_installed(folders)))
    registry.discover()
    registry.load()
    if registry.failures:
        raise SystemExit(f"{', '.join(map(str, registry.failures))}: mend it first")
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    return "\n".join([HEAD, *_offers(offers), "", *_packages(folders, offers), ""])


def _manifests() -> list[Path]:
    return [*ROOT.glob("tcplug_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]


def _name(folder: Path) -> str:
    return folder.name.replace("_", "-")


def _installed(names: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        try:
            metadata(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} isn't installed: run make env first") from None
    return tuple(names)


def _offers(offers: Sequence[Offer]) -> list[str]:
    rows = [(o.kind, f"`{o.spec.name}`", o.spec.summary, o.distribution) for o in offers]
    return _table(("kind", "name", "what it is", "package"), rows)


def _packages(folders: dict[str, Path], offers: Sequence[Offer]) -> list[str]:
    rows = [_package(name, folders[name], offers) for name in sorted(folders)]
    return _table(("package", "what it is", "core", "offers", "installed with"), rows)


def _package(name: str, folder: Path, offers: Sequence[Offer]) -> tuple[str, ...]:
    core = next((need for need in requires(name) or () if re.match(r"truecluster(?![\w.-])", need)), "")
    versions = sorted(re.findall(r"[<>=~!]+[\w.*]+", core), reverse=True)
    kinds = dict.fromkeys(offer.kind for offer in offers if offer.distribution == name)
    link = f"[{name}](../{folder.relative_to(ROOT).as_posix()})"
    return link, metadata(name)["Summary"], f"`{', '.join(versions)}`", ", ".join(kinds), _extra(name)


def _extra(name: str) -> str:
    """The extra of ``truecluster`` that installs the package."""
    named = [need for need in requires("truecluster") or () if re.match(rf"{name}(?![\w.-])", need)]
    extras = [extra for need in named for extra in re.findall(r"extra == ['\"]([\w-]+)['\"]", need)]
    return ", ".join(f"`truecluster[{extra}]`" for extra in extras) or "nothing else"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


if __name__ == "__main__":
    INDEX.write_text(index())
