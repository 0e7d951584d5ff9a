"""Every error in OpenAI's shape: ``{"error": {message, type, param, code}}``, all four keys always there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import attrs
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from truecluster.api import Busy, RequestError, TrueClusterError

from .identity import request_id
from .state import Readiness

_log = logging.getLogger("truecluster.serve")

RETRY_SECONDS = 5
"""When to ask again what can't be answered yet."""
CLIENT_GONE = 499
"""Nginx's status for a client that didn't wait; nobody reads it."""

_HELP = {
    404: "there is no such route; see /v1/models, /v1/completions and /v1/chat/completions",
    405: "this route doesn't take that method",
}


class NotReady(Exception):
    """The model can't answer yet."""

    def __init__(self, readiness: Readiness) -> None:
        counts = f"Required nodes: {readiness.required}, connected ready nodes: {readiness.connected}"
        loading = "; they load their layers" if readiness.connected >= readiness.required else ""
        super().__init__(f"Model is not ready. {counts}{loading}")


class Unauthorized(Exception):
    """A request without the API key."""


class NotLocal(Exception):
    """A request for a host that an API without a key doesn't answer for."""


class Stopping(Exception):
    """The server ends, and what it was asked with it."""


@attrs.frozen(kw_only=True)
class Described:
    """An error as OpenAI's clients read it."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """An ``ErrorResponse``."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, status_code=self.status, headers=dict(self.headers))


def describe(error: Exception) -> Described:
    """What a client may know of ``error``; what only its owner may know, paths and addresses, goes to the log."""
    if isinstance(error, RequestError):
        status = 404 if error.code == "model_not_found" else 400
        return Described(status=status, message=str(error), param=error.param, code=error.code)
    if isinstance(error, HTTPException):
        return _refused(error)
    if isinstance(error, NotReady):
        return _unavailable(str(error), "cluster_not_ready")
    if isinstance(error, Stopping):
        return _unavailable("the server is stopping; ask again when it is back", "server_error")
    if isinstance(error, Busy):
        return _busy(error)
    if isinstance(error, Unauthorized):
        return _unauthorized()
    if isinstance(error, NotLocal):
        return _not_local()
    return _failed(error)


def _refused(error: HTTPException) -> Described:
    usual = HTTPStatus(error.status_code).phrase
    message = _HELP.get(error.status_code, error.detail) if error.detail == usual else error.detail
    return Described(status=error.status_code, message=message, headers=error.headers or {})


def _busy(error: Busy) -> Described:
    return Described(
        status=429,
        message=str(error),
        type="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"retry-after": str(error.retry_after)},
    )


def _unauthorized() -> Described:
    return Described(
        status=401,
        message="this server needs its API key; send it as 'Authorization: Bearer KEY'",
        type="authentication_error",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


def _not_local() -> Described:
    return Described(
        status=403,
        message="without an API key this server answers only for localhost and 127.0.0.1, and the request's Host is "
        "another; ask http://127.0.0.1, or start it with --api-key",
        code="host_not_allowed",
    )


def _unavailable(message: str, kind: str) -> Described:
    return Described(status=503, message=message, type=kind, headers={"retry-after": str(RETRY_SECONDS)})


def _failed(error: Exception) -> Described:
    number = request_id()
    known = isinstance(error, TrueClusterError)
    _log.error("request %s failed: %s", number, error if known else type(error).__name__, exc_info=not known and error)
    message = f"the cluster failed while answering; try again (its log knows more of {number})"
    return Described(status=500, message=message, type="server_error")


async def _answer(request: Request, error: Exception) -> Response:
    return describe(error).response()


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


def install(app: FastAPI) -> None:
    """Answer every exception of ``app`` in OpenAI's shape."""
    for kind in (RequestError, HTTPException, NotReady, Stopping, TrueClusterError, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(ClientDisconnect, _gone)
