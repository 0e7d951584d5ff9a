"""Messages for names that nothing installed has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from .failures import PluginFailure

INSTALL = "a plugin that has it must be installed first"
"""No command to paste: a package of a guessed name could be anybody's."""


def unknown(
    kind: str, name: str, known: Iterable[str], failures: Sequence[PluginFailure], left_out: Sequence[str] = ()
) -> str:
    """What is installed, near matches, plugins that failed or were left out, and how to install one."""
    names = sorted(known)
    parts = [
        f"unknown {kind} {name!r}",
        near(name, names),
        f"installed: {', '.join(names) or 'none'}",
        failed(failures),
        f"left out by --plugins, --without-plugins or --no-plugins: {', '.join(left_out)}" if left_out else "",
        "" if left_out else INSTALL,
    ]
    return "; ".join(filter(None, parts))


def near(name: str, known: Iterable[str], prefix: str = "") -> str:
    """A question that names what may have been meant, or nothing; a ``prefix`` of the names makes none alike."""
    names = {each.removeprefix(prefix).lower(): each for each in sorted(known)}
    meant = [names[each] for each in get_close_matches(name.removeprefix(prefix).lower(), names, n=3)]
    return f"did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def failed(failures: Sequence[PluginFailure]) -> str:
    """The plugins that failed, or nothing."""
    return f"plugins that failed: {', '.join(map(str, failures))}" if failures else ""
