"""What a plugin's module has for us: specs of its offers, and its observer. A hook that fails costs only itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pluggy

from truecluster.api import PluginError

from .kinds import AnySpec
from .offers import WrongAPI, check_plain, specs_of

EVENT_HOOK = "truecluster_event"


@attrs.define
class Collected:
    """Of one plugin."""

    specs: list[AnySpec] = attrs.field(factory=list)
    observers: list[Callable[..., object]] = attrs.field(factory=list)
    failures: list[BaseException] = attrs.field(factory=list)

    def __str__(self) -> str:
        offers = [f"{spec.KIND}/{spec.name}" for spec in self.specs] + ["an observer"] * len(self.observers)
        failed = [f"a hook failed ({type(error).__name__}: {error})" for error in self.failures]
        return ", ".join(offers + failed) or "nothing"


def collect(manager: pluggy.PluginManager, plugin: object) -> Collected:
    """Call every offering hook of a registered plugin. Raises `WrongAPI`, and `PluginError` where there is no hook."""
    collected, implementations = Collected(), list(_implementations(manager, plugin))
    if not implementations:
        raise PluginError("it has no hook; mark its functions with truecluster.api.hookimpl")
    for hook, implementation in implementations:
        try:
            if hook == EVENT_HOOK:
                collected.observers.append(_observer(implementation))
            else:
                collected.specs += specs_of(hook, implementation.function)
        except WrongAPI:
            raise
        except (Exception, SystemExit) as error:
            collected.failures.append(error)
    return collected


def _implementations(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, Any]]:
    for caller in manager.get_hookcallers(plugin) or ():
        yield from ((caller.name, each) for each in caller.get_hookimpls() if each.plugin is plugin)


def _observer(implementation: Any) -> Callable[..., object]:
    function: Callable[..., object] = implementation.function
    check_plain(EVENT_HOOK, function)
    if tuple(implementation.argnames) != ("event",):
        raise PluginError(f"{EVENT_HOOK} must take one argument, event")
    return function
