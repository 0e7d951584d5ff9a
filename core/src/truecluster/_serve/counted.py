"""Counting requests by where they went and how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from http import HTTPStatus

import attrs
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import CLIENT_GONE

OTHER = "other"
_FAILURE = "truecluster.failed"
_OUTCOMES = {
    HTTPStatus.TOO_MANY_REQUESTS: "busy",
    HTTPStatus.SERVICE_UNAVAILABLE: "not_ready",
    CLIENT_GONE: "gone",
}


def note_failure(scope: Scope) -> None:
    """The answer to a request fails after its status was sent."""
    scope[_FAILURE] = True


@attrs.define
class Counted:
    """An application whose requests are counted in ``counts``, by path and outcome; a path that isn't one of ``paths``
    is `OTHER`, or what its route is declared as.

    Outcomes: ``ok``, ``refused`` (the request's fault), ``busy``, ``not_ready``, ``failed``, and ``gone``, where the
    client didn't wait for the end.
    """

    app: ASGIApp
    paths: Collection[str]
    counts: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, complete = 0, False

        async def watched(message: Message) -> None:
            nonlocal status, complete
            await send(message)
            status = message.get("status", status)
            complete = complete or (message["type"] == "http.response.body" and not message.get("more_body", False))

        try:
            await self.app(scope, receive, watched)
        finally:
            outcome = _outcome(status, complete, _FAILURE in scope)
            self.counts[self._path(scope), outcome] += 1

    def _path(self, scope: Scope) -> str:
        path: str = scope["path"]
        return path if path in self.paths else getattr(scope.get("route"), "path", OTHER)


def _outcome(status: int, complete: bool, failed: bool) -> str:
    if failed:
        return "failed"
    if not complete:
        return "gone"
    if status in _OUTCOMES:
        return _OUTCOMES[status]
    if status < HTTPStatus.BAD_REQUEST:
        return "ok"
    return "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed"
