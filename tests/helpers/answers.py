"""Clients that hold everything an API answers to the shapes of OpenAI's own description."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import openai
from openai_shapes import validate, validate_completion_chunk

_WHOLE = {
    "/v1/models": "ListModelsResponse",
    "/v1/completions": "CreateCompletionResponse",
    "/v1/chat/completions": "CreateChatCompletionResponse",
}


def check(response: Any) -> None:
    """A hook for responses of httpx and of its successor; a stream is held to the shapes as it is read."""
    path = response.url.path
    if response.headers["content-type"].startswith("text/event-stream"):
        response.stream = _watched(response, path)
    elif path.startswith("/v1/"):
        response.read()
        known = _WHOLE.get(path, "Model") if response.is_success else "ErrorResponse"
        validate(response.json(), known)


def _watched(response: Any, path: str) -> Any:
    """The response's stream as its library knows one."""
    library, inner = importlib.import_module(type(response).__module__.partition(".")[0]), response.stream

    class Watched(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            rest = b""
            for data in inner:
                *frames, rest = (rest + data).split(b"\n\n")
                for frame in frames:
                    check_frame(frame.decode(), path)
                yield data
            assert not rest, "a stream ends with a whole frame"

        def close(self) -> None:
            inner.close()

    return Watched()


def check_frame(frame: str, path: str) -> None:
    """One event of a stream."""
    assert frame.startswith("data: ")
    data = frame.removeprefix("data: ")
    chunk = {} if data == "[DONE]" else json.loads(data)
    if "error" in chunk:
        validate(chunk, "ErrorResponse")
    elif chunk and "chat" in path:
        validate(chunk, "CreateChatCompletionStreamResponse")
    elif chunk:
        validate_completion_chunk(chunk)


def plain_client(port: int) -> httpx.Client:
    """Of the API on a port, without a library of OpenAI's in between."""
    hooks = {"response": [check]}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=60, event_hooks=hooks)


@contextmanager
def official_client(port: int, key: str = "none", retries: int = 0) -> Iterator[openai.OpenAI]:
    """OpenAI's own."""
    with httpx2.Client(event_hooks={"response": [check]}, timeout=60) as client:
        url = f"http://127.0.0.1:{port}/v1"
        yield openai.OpenAI(base_url=url, api_key=key, max_retries=retries, http_client=client)
