"""Where in a plugin's package something went wrong, and for which input."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Collection, Iterator
from types import TracebackType

from ..rules import Broken, shown

ARGUMENT = re.compile(r"    (\w+)=(.*)")
EXAMPLE = re.compile(r"[\w ]+: \w+\(\n")
"""How hypothesis begins to tell of an input; the words depend on its version."""


def root_cause(error: BaseException) -> BaseException:
    """Of a group, as hypothesis raises where several things are wrong, its first broken rule, else its first."""
    within = getattr(error, "exceptions", ())
    leaves = [root_cause(each) for each in within]
    return next((each for each in leaves if isinstance(each, Broken)), leaves[0] if leaves else error)


def place(error: BaseException, packages: Collection[str], contract: str) -> str | None:
    """``file:line`` of the deepest frame of these packages, in the error or in what it came from.

    The package's module with its ``contract`` counts only where nothing else does, and not where it says `Broken`.
    """
    frames = [frame for each in _chain(error) for frame in reversed(list(_frames(each.__traceback__, packages)))]
    own = [at for at, module in frames if module != contract]
    return next(iter(own or ([] if isinstance(error, Broken) else [at for at, _ in frames])), None)


def declaration(target: object, origin: str | None) -> str | None:
    """``file:line`` of a class; the file ``origin`` where there is none."""
    if not isinstance(target, type):
        return origin
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return origin


def example(error: BaseException) -> dict[str, str]:
    """The arguments that hypothesis noted for an error that isn't `Broken`, without the fixtures among them."""
    notes = [note for note in getattr(error, "__notes__", ()) if EXAMPLE.match(note)]
    found: dict[str, str] = {}
    for line in "\n".join(notes[:1]).splitlines():
        argument = ARGUMENT.fullmatch(line)
        if argument:
            found[argument[1]] = argument[2]
        elif found and line.startswith("     "):
            found[list(found)[-1]] += f" {line.strip()}"
    return {
        name: shown(value.removesuffix(","))
        for name, value in found.items()
        if name != "self" and not value.startswith("<")
    }


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _frames(trace: TracebackType | None, packages: Collection[str]) -> Iterator[tuple[str, str]]:
    """``file:line`` and module, deepest last."""
    for frame, line in traceback.walk_tb(trace):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in packages:
            yield f"{frame.f_code.co_filename}:{line}", module
