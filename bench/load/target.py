"""Which server is asked, and for which model."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import attrs

from .samples import OK

UNAUTHORIZED = (401, 403)
SCHEMES: Mapping[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}


class Unfit(Exception):
    """What can't be measured as it was asked for: what was given, what is wrong, what to do."""


@attrs.frozen(kw_only=True)
class Target:
    """``url`` is what clients call their base URL, with its ``/v1``; ``timeout`` bounds each silence, in seconds."""

    url: str
    model: str = ""
    key: str | None = attrs.field(default=None, repr=False)
    timeout: float = 120.0

    @classmethod
    def found(cls, *, url: str, model: str | None = None, key: str | None = None, timeout: float = 120.0) -> Target:
        """The server at ``url`` with one of the models that it names, by default the first.

        Raises `Unfit` where it doesn't answer as such a server does, wants a key, or hasn't the model.
        """
        asked = cls(url=url.rstrip("/"), key=key, timeout=timeout)
        return attrs.evolve(asked, model=_chosen(url, asked._models(), model))

    def connect(self) -> http.client.HTTPConnection:
        """A connection that dials when it is first used."""
        parts = self._parts()
        assert parts.hostname is not None
        return SCHEMES[parts.scheme](parts.hostname, parts.port, timeout=self.timeout)

    def path(self, route: str) -> str:
        """Of a request for ``route``, such as ``/completions``."""
        return self._parts().path + route

    @property
    def headers(self) -> dict[str, str]:
        own = {"Content-Type": "application/json", "Connection": "close"}
        return own if self.key is None else {**own, "Authorization": f"Bearer {self.key}"}

    def _parts(self) -> SplitResult:
        try:
            parts = urlsplit(self.url)
            fit = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fit = False
        if not fit:
            raise Unfit(f"{self.url!r} is no base URL; give one such as http://127.0.0.1:8000/v1")
        return parts

    def _models(self) -> list[str]:
        status, body = self._get("/models")
        if status in UNAUTHORIZED:
            said = "refuses the key" if self.key else "wants a key"
            raise Unfit(f"{self.url} {said} (it answered {status}); give the right one with --api-key")
        try:
            if status == OK:
                return [str(model["id"]) for model in json.loads(body)["data"]]
        except (ValueError, KeyError, TypeError):
            pass
        raise Unfit(f"{self.url}/models answered {status} and no list of models; is it the base URL, with its /v1?")

    def _get(self, route: str) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request("GET", self.path(route), headers=self.headers)
            with connection.getresponse() as response:
                return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unfit(f"nothing answers at {self.url}: {error or type(error).__name__}; is it running?") from None
        finally:
            connection.close()


def _chosen(url: str, there: Sequence[str], wanted: str | None) -> str:
    if not there:
        raise Unfit(f"{url} serves no model")
    if wanted is not None and wanted not in there:
        raise Unfit(f"{url} has no model {wanted!r}; it has: {', '.join(there)}")
    return wanted or there[0]


def server_error(body: bytes) -> str:
    """What a refusal says, in OpenAI's shape or as it is, shortened."""
    try:
        found: Any = json.loads(body)
        return str(found["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
