"""What is found, by metadata alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from truecluster._registry import Registry, Selection
from truecluster.api import PluginError

OBSERVER = """
@hookimpl
def truecluster_event(event):
    pass
"""
EMPTY = {"tcplug_a.py": OBSERVER}


def names(registry: Registry) -> list[tuple[str, str]]:
    return [(found.distribution, found.version) for found in registry.found]


def test_a_plugin_is_found_without_importing_it(install, site):
    install("tcplug-a", "1.5", {"tcplug_a.py": "raise SystemExit"})
    registry = Registry()
    registry.discover()
    assert names(registry) == [("tcplug-a", "1.5")]
    assert "tcplug_a" not in sys.modules


def test_a_distribution_that_is_no_plugin_is_not_found(install, site):
    install("tcplug-a", "1.0", EMPTY)
    other = site / "other-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: other\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[console_scripts]\nother = other:main\n")
    assert names(Registry.installed()) == [("tcplug-a", "1.0")]


def test_of_two_copies_the_one_that_would_be_imported_counts(install, site, monkeypatch):
    install("tcplug-a", "1.0", EMPTY)
    shadowed = site / "later"
    install("tcplug_A", "0.9", EMPTY, folder=shadowed)
    monkeypatch.setattr(sys, "path", [*sys.path, str(shadowed)])
    assert names(Registry.installed()) == [("tcplug-a", "1.0")]


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        (None, ("tcplug-b",), ["tcplug-a"]),
        (("tcplug-b",), (), ["tcplug-b"]),
        (("TCPLUG_A",), ("tcplug_B",), ["tcplug-a"]),
        ((), (), []),
        (None, (), ["tcplug-a", "tcplug-b"]),
    ],
)
def test_allow_and_deny_name_distributions(install, allow, deny, expected):
    install("tcplug-a", "1.0", EMPTY)
    install("tcplug-b", "1.0", {"tcplug_b.py": OBSERVER})
    registry = Registry.installed(Selection(allow=allow, deny=deny))
    assert [name for name, _ in names(registry)] == expected


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"allow": ("tcplug-qwen", "tcplug-z")}, "--plugins: no plugin named tcplug-z is installed; installed: "),
        (
            {"allow": ("qwen",)},
            "--plugins: no plugin named qwen is installed; did you mean 'tcplug-qwen'?; installed: ",
        ),
        ({"deny": ("tcplug_qwem",)}, "--without-plugins: no plugin named tcplug_qwem is installed; did you mean "),
    ],
)
def test_selecting_what_is_not_installed_is_refused(install, selection, message):
    install("tcplug-qwen", "1.0", {"tcplug_qwen.py": OBSERVER})
    with pytest.raises(PluginError) as caught:
        Registry.installed(Selection(**selection))
    assert str(caught.value).startswith(message)
    assert "tcplug-qwen" in str(caught.value)


def test_metadata_that_cannot_be_read_costs_only_its_own_distribution(install, site: Path):
    install("tcplug-a", "1.0", EMPTY)
    install("tcplug-broken", "1.0", {"tcplug_broken.py": OBSERVER})
    (site / "tcplug_broken-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\x00")
    registry = Registry.installed()
    assert names(registry) == [("tcplug-a", "1.0")]
    assert ["tcplug_broken" in failure.distribution for failure in registry.failures] == [True]
