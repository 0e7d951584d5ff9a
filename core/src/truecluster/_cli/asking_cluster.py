"""Asking a running cluster over its API."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from truecluster.api import AddressError, RequestError, TrueClusterError

TIMEOUT = 10.0


def ask_cluster(url: str, key: str | None) -> dict[str, Any]:
    """``GET /cluster``; ``key`` is the API's. Raises `RequestError`, `AddressError`.

    ``url`` may end in ``/v1``; without a scheme it is http.
    """
    where = _base(url).rstrip("/").removesuffix("/v1") + "/cluster"
    try:
        with urllib.request.urlopen(_asking(where, key), timeout=TIMEOUT) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise _refusal(where, error) from None
    except (OSError, HTTPException) as error:
        raise AddressError(f"no cluster answers at {where}: {_reason(error)}; is tc cluster running there?") from None
    except ValueError:
        raise AddressError(f"what answers at {where} is no cluster: its answer isn't JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
        raise AddressError(f"what answers at {where} is no cluster: its answer names no nodes")
    return found


def _base(url: str) -> str:
    whole = url if "://" in url else f"http://{url}"
    with contextlib.suppress(ValueError):
        parts = urlsplit(whole)
        if parts.scheme in ("http", "https") and parts.netloc:
            return whole
    raise RequestError(f"--url {url!r} is not of the form http://HOST:PORT")


def _reason(error: Exception) -> str:
    """In the system's words, without the class and number that Python writes around them."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    words = cause.strerror if isinstance(cause, OSError) else None
    return words[:1].lower() + words[1:] if words else str(cause)


def _asking(where: str, key: str | None) -> urllib.request.Request:
    return urllib.request.Request(where, headers={"Authorization": f"Bearer {key}"} if key else {})


def _refusal(where: str, error: urllib.error.HTTPError) -> TrueClusterError:
    error.close()
    if error.code == HTTPStatus.UNAUTHORIZED:
        return RequestError(f"the cluster at {where} needs its API key: give it with --api-key or TRUECLUSTER_API_KEY")
    return AddressError(f"no cluster answers at {where}: {error}; is tc cluster running there?")
