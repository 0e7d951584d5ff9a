"""What a plugin's module declares as hooks, and whether it may: checked before any of them is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pluggy

from . import hookspecs
from .places import Flaw, of_function
from .suggest import near

HOOKS = {name: spec for name, spec in vars(hookspecs).items() if name.startswith("truecluster_")}
"""Name → the hook as it is specified."""


def check_declared(manager: pluggy.PluginManager, plugin: object) -> None:
    """Raise `Flaw` for a hook that isn't ours, isn't marked or can't be called as ours are, and where there is none."""
    marked = dict(_marked(manager, plugin))
    for hook, function in marked.values():
        _check_known(hook, function)
        _check_plain(hook, function)
        _check_parameters(hook, function)
    for name in HOOKS:
        there = getattr(plugin, name, None)
        if inspect.isroutine(there) and name not in marked:
            raise Flaw(f"{name} isn't marked as a hook; put @truecluster.api.hookimpl above it", of_function(there))
    if not marked:
        raise Flaw(
            "it has no hook; mark its functions with truecluster.api.hookimpl", getattr(plugin, "__file__", None)
        )


def _marked(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, tuple[str, Callable[..., Any]]]]:
    """Name in the module → the hook that it is meant for, and the function."""
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is not None:
            yield name, (options.get("specname") or name, getattr(plugin, name))


def _check_known(hook: str, function: Callable[..., Any]) -> None:
    if hook not in HOOKS:
        meant = near(hook, HOOKS, "truecluster_") or f"the hooks are {', '.join(HOOKS)}"
        raise Flaw(f"{hook} is no hook; {meant}", of_function(function))


def _check_plain(hook: str, function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise Flaw(f"{hook} is async; hooks are plain functions", of_function(function))


def _check_parameters(hook: str, function: Callable[..., Any]) -> None:
    """A default would never be replaced, and a further argument never be given."""
    wanted, given = inspect.signature(HOOKS[hook]).parameters, inspect.signature(function).parameters
    alike = [(p.name, p.kind, p.default) for p in given.values()] == [
        (p.name, p.kind, p.default) for p in wanted.values()
    ]
    if not alike:
        taken, right = ", ".join(map(_without_type, given.values())), ", ".join(wanted)
        raise Flaw(f"{hook}({taken}) must be declared as def {hook}({right})", of_function(function))


def _without_type(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=inspect.Parameter.empty))
