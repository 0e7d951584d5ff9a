"""Every option of every command is typed by some test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from truecluster._cli.app import app
from truecluster._cli.switches import add_switches

TYPERS_OWN = {"--install-completion", "--show-completion"}
ROOT = Path(__file__).parents[1]


def typed() -> str:
    """Everything that tests and the README, whose commands a test runs, type."""
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("*/tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")]
    others = [path.read_text(encoding="utf-8") for path in files if path != Path(__file__)]
    return "\n".join([*others, (ROOT / "README.md").read_text(encoding="utf-8")])


def options(command: Any) -> set[str]:
    """The longest spelling of each option of a command and all below it."""
    children = getattr(command, "commands", {}).values()
    own = {max(each.opts, key=len) for each in command.params if each.param_type_name == "option"}
    return own.union(*map(options, children))


@pytest.mark.parametrize("option", sorted(options(add_switches(typer.main.get_command(app))) - TYPERS_OWN))
def test_an_option_is_typed_by_a_test(option: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", typed()), f"no test types {option}"
