"""Every error in OpenAI's shape: ``{"error": {message, type, param, code}}``, all four keys always there."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from truecluster.api import RequestError, TrueClusterError

from .state import Readiness

_log = logging.getLogger("truecluster.serve")

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


def error_response(
    status: int, message: str, type: str, param: str | None = None, code: str | None = None
) -> JSONResponse:
    """An error as OpenAI's clients read it."""
    error = {"message": message, "type": type, "param": param, "code": code}
    return JSONResponse({"error": error}, status_code=status)


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    status = 404 if error.code == "model_not_found" else 400
    return error_response(status, str(error), "invalid_request_error", error.param, error.code)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    usual = HTTPStatus(error.status_code).phrase
    message = _HELP.get(error.status_code, error.detail) if error.detail == usual else error.detail
    response = error_response(error.status_code, message, "invalid_request_error")
    response.headers.update(error.headers or {})
    return response


async def _not_ready(request: Request, error: Exception) -> Response:
    return error_response(503, str(error), "cluster_not_ready")


async def _failed(request: Request, error: Exception) -> Response:
    """What exactly failed is for the log: it can hold addresses and paths."""
    if isinstance(error, TrueClusterError):
        _log.error("a request failed: %s", error)
    return error_response(500, "the cluster failed while answering; try again", "server_error")


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


def install(app: FastAPI) -> None:
    """Answer every exception of ``app`` in OpenAI's shape."""
    app.add_exception_handler(RequestError, _bad_request)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(NotReady, _not_ready)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(TrueClusterError, _failed)
    app.add_exception_handler(Exception, _failed)
