"""Messages for names that nothing installed has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from .failures import PluginFailure


def unknown(kind: str, name: str, known: Iterable[str], failures: Sequence[PluginFailure]) -> str:
    """What is installed, near matches, plugins that failed, and how to install one."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3)
    parts = [
        f"unknown {kind} {name!r}",
        f"did you mean {' or '.join(map(repr, near))}?" if near else "",
        f"installed: {', '.join(names) or 'none'}",
        failed(failures),
        install_hint(name),
    ]
    return "; ".join(filter(None, parts))


def failed(failures: Sequence[PluginFailure]) -> str:
    """The plugins that failed, or nothing."""
    return f"plugins that failed: {', '.join(map(str, failures))}" if failures else ""


def install_hint(name: str) -> str:
    """The command to paste, where the name could be a distribution's."""
    stem = name.partition(".")[0].replace("_", "-")
    return f"install it with: pip install tcplug-{stem}" if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", stem) else ""
