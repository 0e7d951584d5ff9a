"""The application: routes only."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any

import attrs
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from truecluster._engine.requests import Sampling
from truecluster._text import acomplete, astream
from truecluster.api import RequestError, TrueClusterError

from . import errors, static
from .answers import answer, model_answer
from .body import read_body
from .calls import Call, Streaming
from .chunks import Chunks
from .counted import Counted
from .events import DONE, EventStream, frame
from .guard import Guarded
from .identity import Identified
from .local_only import LocalOnly
from .metrics import CONTENT_TYPE, Metrics
from .options import ServeOptions
from .parsing import parse_chat, parse_completion
from .shapes import CHAT, COMPLETION, Shape
from .state import ServeState
from .waiting import while_connected

_log = logging.getLogger("truecluster.serve")

WARNING_HEADER = "x-truecluster-warning"
_SHOWN_NAMES, _SHOWN_LENGTH = 8, 64


def create_app(state: ServeState, options: ServeOptions = ServeOptions()) -> ASGIApp:  # noqa: B008
    """The API for ``state``. It reads ``state`` on every request, so it can be served before the model is loaded."""
    requests: Counter[tuple[str, str]] = Counter()
    api = routes(state, options, requests)
    paths = {route.path for route in api.routes if isinstance(route, APIRoute)}
    app: ASGIApp = LocalOnly(api) if options.api_key is None else Guarded(api, options.api_key)
    return Identified(Counted(app, paths, requests))


def routes(state: ServeState, options: ServeOptions, requests: Counter[tuple[str, str]]) -> FastAPI:
    """The API without what is around it: names of requests, how they are counted in ``requests``, and the key."""
    app = FastAPI(title="TrueCluster", openapi_url=None, redirect_slashes=False)
    errors.install(app)
    static.install(app)

    @app.get("/health")
    async def health() -> JSONResponse:
        readiness = state.ready()
        return JSONResponse(attrs.asdict(readiness), status_code=200 if readiness.ready else 503)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [model_answer(state, name) for name in state.model_names]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        _require_model(state, name)
        return model_answer(state, name)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(Metrics(state, requests).text(), media_type=CONTENT_TYPE)

    @app.get("/cluster")
    async def cluster() -> dict[str, Any]:
        return state.cluster()

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _respond(state, options, request, _COMPLETIONS)

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await _respond(state, options, request, _CHAT)

    for methods in (route.methods for route in app.routes if isinstance(route, APIRoute)):
        if methods and "GET" in methods:
            methods.add("HEAD")  # RFC 9110, 9.1: every server has both
    return app


@attrs.frozen
class _Endpoint:
    """One of the routes that generate."""

    parse: Callable[[bytes, Sampling], Call]
    shape: Shape


_COMPLETIONS = _Endpoint(parse_completion, COMPLETION)
_CHAT = _Endpoint(parse_chat, CHAT)


async def _respond(state: ServeState, options: ServeOptions, request: Request, endpoint: _Endpoint) -> Response:
    raw = await read_body(request)
    call = await to_thread.run_sync(endpoint.parse, raw, options.defaults)
    if not call.owner and request.client is not None:
        call = attrs.evolve(call, owner=request.client.host)
    _require_model(state, call.model)
    headers = _warning(call.unknown, options.strict_fields)
    _require_ready(state)
    if call.streaming is not None:
        return EventStream(_frames(state, call, endpoint.shape, call.streaming), headers)
    body = await while_connected(request, partial(_generate, state, call, endpoint.shape))
    return JSONResponse(body, headers=headers)


async def _generate(state: ServeState, call: Call, shape: Shape) -> dict[str, Any]:
    requests = await to_thread.run_sync(call.prepare, state.text)
    with _failures(state):
        return answer(shape, call.model, requests, await acomplete(state.engine, requests))


async def _frames(state: ServeState, call: Call, shape: Shape, streaming: Streaming) -> AsyncGenerator[bytes, None]:
    requests = await to_thread.run_sync(call.prepare, state.text)
    chunks = Chunks(shape, call.model, requests, streaming.include_usage)
    with _failures(state):
        async with contextlib.aclosing(astream(state.engine, requests)) as events:
            async for index, event in events:
                for chunk in chunks.of(index, event):
                    yield frame(chunk)
    for chunk in chunks.end():
        yield frame(chunk)
    yield DONE


@contextlib.contextmanager
def _failures(state: ServeState) -> Iterator[None]:
    """What fails because the server ends is nobody's fault."""
    try:
        yield
    except TrueClusterError:
        if state.leaving:
            raise errors.Stopping from None
        raise


def _require_ready(state: ServeState) -> None:
    if state.leaving:
        raise errors.Stopping
    readiness = state.ready()
    if not readiness.ready:
        raise errors.NotReady(readiness)


def _shortened(name: str) -> str:
    """A name from outside, fit for a header and a log line: ASCII, one line, short."""
    return json.dumps(name[:_SHOWN_LENGTH])


def _require_model(state: ServeState, name: str) -> None:
    if name not in state.model_names:
        there = ", ".join(state.model_names)
        raise RequestError(
            f"The model {_shortened(name)} does not exist; this server has: {there}", "model", "model_not_found"
        )


def _warning(unknown: tuple[str, ...], strict: bool) -> dict[str, str]:
    if not unknown:
        return {}
    names = ", ".join(map(_shortened, unknown[:_SHOWN_NAMES]))
    if strict:
        raise RequestError(f"no schema knows these fields: {names}; leave them out", unknown[0][:_SHOWN_LENGTH])
    _log.warning("a request has fields that no schema knows, left alone: %s", names)
    return {WARNING_HEADER: f"unknown fields were ignored: {names}"}
