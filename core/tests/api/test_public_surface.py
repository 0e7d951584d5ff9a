"""``__all__`` is the public surface, all of it, and each part of it says what it is for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import truecluster.api
import truecluster.nn

PACKAGES = [truecluster.api, truecluster.nn]


def submodules(package: ModuleType) -> list[ModuleType]:
    return [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]


def defined(package: ModuleType) -> set[str]:
    """Names without underscore that the package's own file binds, submodules excepted."""
    modules = {module.__name__.rpartition(".")[2] for module in submodules(package)}
    return {name for name in vars(package) if not name.startswith("_")} - modules


def own(value: object, package: ModuleType) -> bool:
    return getattr(value, "__module__", "").startswith(package.__name__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_all_names_what_the_package_binds(package: ModuleType) -> None:
    assert set(package.__all__) == defined(package)
    assert len(package.__all__) == len(set(package.__all__))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_every_public_object_has_a_docstring(package: ModuleType) -> None:
    bare = []
    for name in package.__all__:
        value = getattr(package, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and own(value, package):
            bare += [name] * (not value.__doc__)
            bare += [f"{name}.{m}" for m in methods_without_docstring(value)]
    assert bare == []


def methods_without_docstring(cls: object) -> list[str]:
    """Public methods and properties that neither the class nor a base of it describes."""
    if not inspect.isclass(cls):
        return []
    members = [m for m in vars(cls) if not m.startswith("_")]
    described = [m for m in members if inspect.isroutine(vars(cls)[m]) or isinstance(vars(cls)[m], property)]
    return [m for m in described if not inspect.getdoc(getattr(cls, m))]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_every_public_module_has_a_docstring(package: ModuleType) -> None:
    assert [module.__name__ for module in [package, *submodules(package)] if not module.__doc__] == []


def test_the_api_needs_no_tensor_library() -> None:
    script = "import sys, truecluster.api; print(*sorted({'torch', 'numpy', 'anyio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_every_hook_is_described_with_the_marker() -> None:
    from truecluster._registry import hookspecs

    hooks = {name for name in vars(hookspecs) if name.startswith("truecluster_")}
    text = Path(truecluster.api.__path__[0], "hooks.py").read_text()
    assert len(hooks) == 8
    assert [name for name in hooks if name not in text] == []
