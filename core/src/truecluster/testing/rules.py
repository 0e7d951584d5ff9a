"""How a suite says which rule was broken, so that an author can act on it.

The rule is the docstring of the suite's method; what was expected, what came and for which input is in `Broken`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, settings

__all__ = ["Broken", "ranging", "refusal", "require"]

LONGEST = 400
"""Characters of one value in a message."""

ranging = settings(
    max_examples=50,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # explaining takes most of the time
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors, HealthCheck.too_slow],
)
"""For the methods whose input ranges: the same verdict each time, the smallest input that breaks the rule."""


class Broken(AssertionError):
    """A plugin broke a rule. ``expected`` says what the rule asks for here, ``came`` what the plugin did instead.

    ``inputs`` is the input, by name; where a method ranges over inputs it is the smallest one.
    """

    def __init__(self, expected: str, came: object, inputs: dict[str, object]) -> None:
        self.expected = expected
        self.came = shown(came)
        self.inputs = {name: shown(value) for name, value in inputs.items()}
        lines = [f"expected: {self.expected}", f"came: {self.came}"]
        lines += [f"{name}: {value}" for name, value in self.inputs.items()]
        super().__init__("\n".join(lines))


def shown(value: object) -> str:
    """A value as a message shows it: text as it is, anything else by its ``repr``, cut where it is long."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def require(holds: bool, expected: str, came: object, **inputs: object) -> None:
    """Raise `Broken` unless the rule ``holds``."""
    if not holds:
        raise Broken(expected, came, inputs)


@contextmanager
def refusal(
    error: type[Exception] | tuple[type[Exception], ...], match: str = "", /, **inputs: object
) -> Iterator[list[Exception]]:
    """What is done inside must raise ``error``, its message matching; anything else is `Broken`.

    Yields a list that holds the error afterwards.
    """
    names = " or ".join(kind.__name__ for kind in (error if isinstance(error, tuple) else (error,)))
    expected = f"{names} whose message matches {match!r}" if match else names
    caught: list[Exception] = []
    try:
        yield caught
    except error as refused:
        caught.append(refused)
        if not re.search(match, str(refused)):
            raise Broken(expected, refused, inputs) from refused
    except Exception as other:
        raise Broken(expected, other, inputs) from other
    else:
        raise Broken(expected, "nothing was raised", inputs)
