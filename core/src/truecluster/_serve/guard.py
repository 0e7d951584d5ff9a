"""The API key: nothing is answered without it but what is open to everybody."""

from __future__ import annotations

import secrets

from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import Unauthorized, describe
from .static import PAGE

OPEN = frozenset({"/health", *(file.path for file in PAGE)})
"""Paths that hold nothing of anybody's."""


class Guarded:
    """An application behind a key, which `OPEN` paths don't need."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["path"] in OPEN or self._has_key(scope)
        answer = self._app if allowed else describe(Unauthorized()).response()
        await answer(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return bool(secrets.compare_digest(key.strip(), self._key)) and scheme.lower() == b"bearer"
