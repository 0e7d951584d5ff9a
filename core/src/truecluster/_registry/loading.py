"""What a plugin's module has for us: specs of its offers, and its observer. A hook that fails costs only itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pluggy

from .kinds import AnySpec
from .offers import WrongAPI, specs_of
from .places import of_error, of_function

EVENT_HOOK = "truecluster_event"


@attrs.define
class Collected:
    """Of one plugin; specs and errors with their places."""

    specs: list[tuple[AnySpec, str]] = attrs.field(factory=list)
    observers: list[Callable[..., object]] = attrs.field(factory=list)
    failures: list[tuple[BaseException, str]] = attrs.field(factory=list)

    def __str__(self) -> str:
        offers = [f"{spec.KIND}/{spec.name}" for spec, _ in self.specs] + ["an observer"] * len(self.observers)
        failed = [f"a hook failed ({type(error).__name__}: {error})" for error, _ in self.failures]
        return ", ".join(offers + failed)


def collect(manager: pluggy.PluginManager, plugin: object) -> Collected:
    """Call every offering hook of a registered plugin. Raises `WrongAPI`."""
    collected = Collected()
    for hook, function in _implementations(manager, plugin):
        if hook == EVENT_HOOK:
            collected.observers.append(function)
            continue
        place = of_function(function)
        try:
            collected.specs += [(spec, place) for spec in specs_of(hook, function)]
        except WrongAPI:
            raise
        except (Exception, SystemExit) as error:
            collected.failures.append((error, of_error(error, function.__module__) or place))
    return collected


def _implementations(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    for caller in manager.get_hookcallers(plugin) or ():
        yield from ((caller.name, each.function) for each in caller.get_hookimpls() if each.plugin is plugin)
