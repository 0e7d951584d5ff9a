"""Asking a running cluster over its API."""

from __future__ import annotations

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
    """``GET /cluster``; ``url`` may end in ``/v1``, ``key`` is the API's. Raises `RequestError`, `AddressError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise RequestError(f"--url {url!r} is not of the form http://HOST:PORT")
    where = url.rstrip("/").removesuffix("/v1") + "/cluster"
    try:
        with urllib.request.urlopen(_asking(where, key), timeout=TIMEOUT) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise _refusal(where, error) from None
    except (OSError, HTTPException) as error:
        raise AddressError(f"no cluster answers at {where}: {error}; is tc cluster running there?") from None
    except ValueError:
        raise AddressError(f"what answers at {where} is no cluster: its answer isn't JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
        raise AddressError(f"what answers at {where} is no cluster: its answer names no nodes")
    return found


def _asking(where: str, key: str | None) -> urllib.request.Request:
    return urllib.request.Request(where, headers={"Authorization": f"Bearer {key}"} if key else {})


def _refusal(where: str, error: urllib.error.HTTPError) -> TrueClusterError:
    error.close()
    if error.code == HTTPStatus.UNAUTHORIZED:
        return RequestError(f"the cluster at {where} needs its API key: give it with --api-key or TRUECLUSTER_API_KEY")
    return AddressError(f"no cluster answers at {where}: {error}; is tc cluster running there?")
