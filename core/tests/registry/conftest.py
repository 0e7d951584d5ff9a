"""Distributions made of a few files on a temporary ``sys.path``, as pip would have left them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributions import write_distribution

from truecluster._registry import Registry

Install = Callable[..., None]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that is all of ``sys.path`` that discovery sees, beside the standard library."""
    before = set(sys.modules)
    kept = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *kept])
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Install:
    """``install("tcplug-x", "1.0", {"tcplug_x.py": source})``; the first module is the plugin's."""

    def write(name: str, version: str, modules: dict[str, str], folder: Path = site) -> None:
        write_distribution(folder, name, version, modules)
        importlib.invalidate_caches()

    return write


@pytest.fixture
def loaded(site: Path) -> Callable[[], Registry]:
    """A registry of what has been installed so far."""
    return Registry.installed
