"""The switches that every command has: which plugins to use, and how strictly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

import typer

from truecluster._registry import Selection
from truecluster._registry.selection import ALLOW, DENY, NONE, STRICT, TRACE
from truecluster.api import RequestError

from .output import only_answers

VARIABLES = {
    "plugins": ALLOW,
    "without_plugins": DENY,
    "no_plugins": NONE,
    "strict_plugins": STRICT,
    "trace_plugins": TRACE,
}


def _switches(
    plugins: Annotated[
        str | None, typer.Option(metavar="A,B", help=f"Use only these distributions; also {ALLOW}.")
    ] = None,
    without_plugins: Annotated[
        str | None, typer.Option(metavar="A,B", help=f"Leave these distributions out; also {DENY}.")
    ] = None,
    no_plugins: Annotated[bool, typer.Option("--no-plugins", help=f"Use none at all; also {NONE}=1.")] = False,
    strict_plugins: Annotated[
        bool, typer.Option("--strict-plugins", help=f"End where a plugin fails or two clash; also {STRICT}=1.")
    ] = False,
    trace_plugins: Annotated[
        bool, typer.Option("--trace-plugins", help=f"Tell what plugins do, and how long it takes; also {TRACE}=1.")
    ] = False,
) -> None:
    raise NotImplementedError


def add_switches(command: Any) -> Any:
    """Give every command of a (click) command tree the switches, valid while its body runs, for its children too."""
    children = getattr(command, "commands", None)
    if children is None:
        command.params += _params()
        command.callback = _choosing(command.callback)
    for child in (children or {}).values():
        add_switches(child)
    return command


def _params() -> list[Any]:
    declared = typer.Typer(add_completion=False)
    declared.command()(_switches)
    return list(typer.main.get_command(declared).params)


def _choosing(body: Callable[..., Any]) -> Callable[..., Any]:
    def callback(**given: Any) -> Any:
        settings = _settings({name: given.pop(name) for name in VARIABLES})
        with _environment(settings), only_answers() if given.get("as_json") else nullcontext():
            Selection.from_environment()
            return body(**given)

    return callback


def _settings(given: Mapping[str, str | bool | None]) -> dict[str, str]:
    """The switches that were typed, as variables."""
    for name in ("plugins", "without_plugins"):
        value = given[name]
        if value is not None and not str(value).strip(" ,"):
            raise RequestError(f"--{name.replace('_', '-')} {value!r} names nothing: give names as in tc plugin list")
    return {VARIABLES[name]: "1" if value is True else str(value) for name, value in given.items() if value}


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
