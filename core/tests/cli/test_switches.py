"""The switches of plugins, which every command has."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from truecluster._cli import app as application
from truecluster._cli import main, plugin
from truecluster._cli.switches import VARIABLES, add_switches
from truecluster._registry import Registry, Selection

Tc = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def selected(monkeypatch: pytest.MonkeyPatch) -> list[Selection]:
    """What each registry of a command was made from; the registries are empty."""
    seen: list[Selection] = []

    def surveyed() -> Registry:
        seen.append(Selection.from_environment())
        return Registry()

    monkeypatch.setattr(plugin, "_surveyed", surveyed)
    return seen


@pytest.fixture
def tc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tc:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tc", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()  # type: ignore[return-value]

    return run


def commands(command: Any, name: str = "tc") -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield name, command
    for child, each in children.items():
        yield from commands(each, f"{name} {child}")


def test_every_command_has_all_of_them() -> None:
    tree = dict(commands(add_switches(typer.main.get_command(application.app))))
    assert {"tc run", "tc cluster", "tc node", "tc plan", "tc plugin list", "tc plugin info"} <= set(tree)
    assert [name for name, each in tree.items() if set(VARIABLES) - {param.name for param in each.params}] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Selection()),
        (["--plugins", "a,b"], Selection(allow=("a", "b"))),
        (["--without-plugins", "a"], Selection(deny=("a",))),
        (["--no-plugins"], Selection(allow=())),
        (["--strict-plugins", "--trace-plugins"], Selection(strict=True, trace=True)),
    ],
)
def test_they_hold_while_the_command_runs(
    tc: Tc, selected: list[Selection], arguments: list[str], expected: Selection
) -> None:
    before = dict(os.environ)
    assert tc("plugin", "list", *arguments)[0] == 0
    assert selected == [expected]
    assert dict(os.environ) == before


def test_one_that_is_typed_wins_over_its_variable(
    tc: Tc, selected: list[Selection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUECLUSTER_PLUGINS", "x")
    monkeypatch.setenv("TRUECLUSTER_STRICT_PLUGINS", "1")
    tc("plugin", "list", "--plugins", "a")
    assert selected == [Selection(allow=("a",), strict=True)]
    assert os.environ["TRUECLUSTER_PLUGINS"] == "x"


@pytest.mark.parametrize(
    ("arguments", "variables", "why"),
    [
        (["--plugins", " ,"], {}, "--plugins ' ,' names nothing"),
        (["--without-plugins", ""], {}, "--without-plugins '' names nothing"),
        (["--plugins", "a", "--no-plugins"], {}, "--no-plugins (TRUECLUSTER_NO_PLUGINS) leaves every plugin out"),
        (["--no-plugins"], {"TRUECLUSTER_PLUGINS": "a"}, "wants a; give one of them"),
        (["--plugins", "a,B", "--without-plugins", "b"], {}, "--plugins and --without-plugins both name b"),
        ([], {"TRUECLUSTER_NO_PLUGINS": "perhaps"}, "TRUECLUSTER_NO_PLUGINS='perhaps' is neither yes"),
    ],
)
def test_what_makes_no_sense_is_refused_by_every_command(
    tc: Tc, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], why: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for command in (["plugin", "list"], ["node"], ["plan"]):
        code, out, err = tc(*command, *arguments)
        assert (code, out) == (2, "")
        assert why in err


@pytest.mark.parametrize("as_json", [True, False])
def test_what_a_plugin_prints_is_kept_out_of_json(tc: Tc, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    def surveyed() -> Registry:
        print("imported")
        return Registry()

    monkeypatch.setattr(plugin, "_surveyed", surveyed)
    code, out, err = tc("plugin", "list", *["--json"] * as_json)
    assert (code, err) == (0, "imported\n" if as_json else "")
    if as_json:
        assert json.loads(out) == {"offers": [], "failures": []}
    else:
        assert out.startswith("imported\nKIND")
