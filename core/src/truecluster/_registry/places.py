"""Where in a plugin something stands: ``file:line``."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from truecluster.api import PluginError


class Flaw(PluginError):
    """Something in a plugin's source is wrong, at ``place``."""

    def __init__(self, message: str, place: str | None) -> None:
        super().__init__(message)
        self.place = place


def of_function(function: Callable[..., Any]) -> str:
    """Its first line, decorators included."""
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def of_class(target: Any) -> str | None:
    """Its first line; ``None`` where no file tells, or for what is no class."""
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return None


def of_error(error: BaseException, module: str) -> str | None:
    """The last line of the package of ``module`` that led to the error, ``None`` if none did."""
    if isinstance(error, Flaw):
        return error.place
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _package(frame.f_globals.get("__name__", "")) == _package(module)
    ]
    return own[-1] if own else None


def _package(module: str) -> str:
    return module.partition(".")[0]
