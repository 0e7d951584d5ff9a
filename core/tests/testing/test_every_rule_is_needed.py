"""The kit is tested by being beaten: each method of each suite catches a double that no other method catches.

A module ``test_*_suite.py`` declares ``SUITE``, the contract; ``RIGHT``, suites over right doubles; and ``DOUBLES``,
for each method of the contract a `Double`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


def modules() -> list[ModuleType]:
    """The modules with doubles, imported under their own names."""
    found = []
    for file in sorted(Path(__file__).parent.glob("test_*_suite.py")):
        spec = importlib.util.spec_from_file_location(f"doubles_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found.append(module)
    return found


MODULES = [module for module in modules() if hasattr(module, "SUITE")]
IDS = [module.__name__.removeprefix("doubles_test_") for module in MODULES]
RIGHT = [suite for module in MODULES for suite in module.RIGHT]
DOUBLES = {f"{module.SUITE.__name__}.{name}": double for module in MODULES for name, double in module.DOUBLES.items()}


def methods(suite: type) -> dict[str, object]:
    return {name: getattr(suite, name) for name in dir(suite) if name.startswith("test_")}


@pytest.mark.parametrize("module", MODULES, ids=IDS)
def test_every_method_has_a_double(module):
    assert set(methods(module.SUITE)) == set(module.DOUBLES)


@pytest.mark.parametrize("module", MODULES, ids=IDS)
def test_every_method_says_its_rule(module):
    assert [name for name, method in methods(module.SUITE).items() if not method.__doc__] == []


@pytest.mark.parametrize("suite", RIGHT, ids=[suite.__name__ for suite in RIGHT])
def test_a_right_double_passes(verdict, suite):
    assert verdict(suite) == {}


@pytest.mark.parametrize("name", DOUBLES)
def test_a_wrong_double_is_caught_by_its_rule_alone(verdict, name):
    caught = verdict(DOUBLES[name].suite)
    assert list(caught) == [name.partition(".")[2]], caught
    pattern = DOUBLES[name].says
    assert re.search(pattern, next(iter(caught.values()))), caught
