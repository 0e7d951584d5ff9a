"""A request's body: bounded bytes, then strict JSON without NaN, infinities and broken Unicode."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request

from truecluster._text import require_plain
from truecluster.api import RequestError

MAX_BODY = 4 * 1024 * 1024
"""Bytes."""
BODY_TIMEOUT = 60.0
"""Seconds that a client may take to send a body."""


async def read_body(request: Request) -> bytes:
    """The raw body. Raises `HTTPException` 413, 415 or 408."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be JSON; send it with 'Content-Type: application/json'")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY:
        raise _too_large()
    try:
        with anyio.fail_after(BODY_TIMEOUT):
            return await _bounded(request)
    except TimeoutError:
        raise HTTPException(408, f"the body didn't arrive within {BODY_TIMEOUT:.0f} seconds") from None


async def _bounded(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _too_large()
    return bytes(body)


def _too_large() -> HTTPException:
    return HTTPException(413, f"the body is larger than {MAX_BODY} bytes; send less")


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises `RequestError`, which never repeats the input."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, parse_constant=_not_a_number, parse_float=_finite)
        if not isinstance(value, dict):
            raise RequestError("the body must be a JSON object")
        require_plain(value, "")
    except UnicodeDecodeError:
        raise RequestError("the body isn't valid UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(f"the body isn't valid JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise RequestError("the body is nested too deeply") from None
    except ValueError:
        raise RequestError("the body holds a number with too many digits") from None
    return value


def _not_a_number(name: str) -> NoReturn:
    raise RequestError(f"the body holds {name}, which isn't a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise RequestError("the body holds a number that is too large")
    return value
