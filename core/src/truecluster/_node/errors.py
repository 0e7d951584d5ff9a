"""Task groups raise groups; users read one error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from truecluster.api import TrueClusterError

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


@contextmanager
def one_error() -> Iterator[None]:
    """Raise, instead of a group, the one of its errors that says most: ours before others, the first before later."""
    try:
        yield
    except BaseExceptionGroup as group:
        errors = list(_leaves(group))
        raise next((e for e in errors if isinstance(e, TrueClusterError)), errors[0]) from None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
