"""The application: routes only."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from truecluster._text import acomplete
from truecluster.api import RequestError

from . import errors
from .answers import Answer, chat_answer, completion_answer, model_answer
from .body import read_body
from .calls import Call, parse_chat, parse_completion
from .state import ServeState
from .waiting import gather, while_connected

_log = logging.getLogger("truecluster.serve")

WARNING_HEADER = "x-truecluster-warning"
_SHOWN_NAMES, _SHOWN_LENGTH = 8, 64


def create_app(state: ServeState) -> FastAPI:
    """The API for ``state``. It reads ``state`` on every request, so it can be served before the model is loaded."""
    app = FastAPI(title="TrueCluster", openapi_url=None, redirect_slashes=False)
    errors.install(app)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [model_answer(name, state.created) for name in state.model_names]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        _require_model(state, name)
        return model_answer(name, state.created)

    @app.get("/cluster")
    async def cluster() -> dict[str, Any]:
        return state.cluster()

    @app.post("/v1/completions")
    async def completions(request: Request) -> JSONResponse:
        return await _respond(state, request, parse_completion, completion_answer)

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> JSONResponse:
        return await _respond(state, request, parse_chat, chat_answer)

    return app


async def _respond(state: ServeState, request: Request, parse: Callable[[bytes], Call], answer: Answer) -> JSONResponse:
    raw = await read_body(request)
    call = await to_thread.run_sync(parse, raw)
    _require_model(state, call.model)
    readiness = state.ready()
    if not readiness.ready:
        raise errors.NotReady(readiness)
    body = await while_connected(request, partial(_generate, state, call, answer))
    return JSONResponse(body, headers=_warning(call.unknown))


async def _generate(state: ServeState, call: Call, answer: Answer) -> dict[str, Any]:
    prepared = await to_thread.run_sync(call.prepare, state.text)
    return answer(call.model, await gather([partial(acomplete, state.engine, one) for one in prepared]))


def _shortened(name: str) -> str:
    """A name from outside, fit for a header and a log line: ASCII, one line, short."""
    return json.dumps(name[:_SHOWN_LENGTH])


def _require_model(state: ServeState, name: str) -> None:
    if name not in state.model_names:
        there = ", ".join(state.model_names)
        raise RequestError(
            f"The model {_shortened(name)} does not exist; this server has: {there}", "model", "model_not_found"
        )


def _warning(unknown: tuple[str, ...]) -> dict[str, str]:
    if not unknown:
        return {}
    names = ", ".join(map(_shortened, unknown[:_SHOWN_NAMES]))
    _log.warning("a request has fields that no schema knows, left alone: %s", names)
    return {WARNING_HEADER: f"unknown fields were ignored: {names}"}
