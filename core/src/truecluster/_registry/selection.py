"""Which of the installed plugins to use, and how strictly: what a user says by switches or in the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import attrs

from truecluster.api import PluginError

ALLOW = "TRUECLUSTER_PLUGINS"
DENY = "TRUECLUSTER_WITHOUT_PLUGINS"
NONE = "TRUECLUSTER_NO_PLUGINS"
STRICT = "TRUECLUSTER_STRICT_PLUGINS"
TRACE = "TRUECLUSTER_TRACE_PLUGINS"

YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


@attrs.frozen(kw_only=True)
class Selection:
    """``allow`` and ``deny`` are names of distributions; ``allow`` is ``None`` where all are.

    ``strict``: a plugin that fails, or a name that is offered twice, is an error. ``trace``: tell on standard error
    what is done with plugins, and how long it takes.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    strict: bool = False
    trace: bool = False

    def __attrs_post_init__(self) -> None:
        both = sorted(set(map(normalized, self.allow or ())) & set(map(normalized, self.deny)))
        if both:
            raise PluginError(f"--plugins and --without-plugins both name {', '.join(both)}; leave one of them out")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Selection:
        """What the five variables say. Raises `PluginError` where they contradict each other or aren't understood."""
        allow, nothing = _names(environment, ALLOW), _flag(environment, NONE)
        if allow and nothing:
            raise PluginError(
                f"--no-plugins ({NONE}) leaves every plugin out, --plugins ({ALLOW}) wants {', '.join(allow)}; "
                "give one of them"
            )
        return cls(
            allow=() if nothing else allow or None,
            deny=_names(environment, DENY),
            strict=_flag(environment, STRICT),
            trace=_flag(environment, TRACE),
        )

    def takes(self, distribution: str) -> bool:
        """Whether a distribution is to be used."""
        name = normalized(distribution)
        allowed = self.allow is None or name in map(normalized, self.allow)
        return allowed and name not in map(normalized, self.deny)


def normalized(name: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(environment: Mapping[str, str], variable: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, environment.get(variable, "").split(","))))


def _flag(environment: Mapping[str, str], variable: str) -> bool:
    value = environment.get(variable, "").strip().lower()
    if value not in YES + NO:
        raise PluginError(f"{variable}={value!r} is neither yes ({', '.join(YES)}) nor no ({', '.join(NO[:-1])})")
    return value in YES
