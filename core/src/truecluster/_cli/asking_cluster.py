"""Asking a running cluster over its API."""

from __future__ import annotations

import json
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from truecluster.api import AddressError, RequestError

TIMEOUT = 10.0


def ask_cluster(url: str) -> dict[str, Any]:
    """``GET /cluster``; ``url`` may end in ``/v1``. Raises `RequestError` or `AddressError` naming it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise RequestError(f"--url {url!r} is not of the form http://HOST:PORT")
    where = url.rstrip("/").removesuffix("/v1") + "/cluster"
    try:
        with urllib.request.urlopen(where, timeout=TIMEOUT) as answer:
            found = json.load(answer)
    except (OSError, HTTPException) as error:
        raise AddressError(f"no cluster answers at {where}: {error}; is tc cluster running there?") from None
    except ValueError:
        raise AddressError(f"what answers at {where} is no cluster: its answer isn't JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
        raise AddressError(f"what answers at {where} is no cluster: its answer names no nodes")
    return found
