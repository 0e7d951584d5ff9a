"""Options of the HTTP API. Imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import attrs
import typer

from truecluster._wire.addresses import is_loopback, shown
from truecluster.api import RequestError

from .addresses import only_api_host, to_dial

Host = Annotated[str, typer.Option("--api-host", metavar="HOST", help="Address of the HTTP API.")]
Port = Annotated[
    int, typer.Option("--api-port", min=0, max=65535, metavar="PORT", help="Port of the HTTP API; 0 takes a free one.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        help="The API's key, which only one on loopback can do without. Other users can see it here: better set "
        "TRUECLUSTER_API_KEY.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--served-model-name",
        metavar="NAME",
        help="The model's name in the API; repeatable.  [default: its hub id, else its folder's or file's name]",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict-fields", help="Refuse requests with fields that no schema knows, else only warned of."),
]
Defaults = Annotated[
    str,
    typer.Option(
        "--generation-defaults",
        metavar="openai|model",
        help="Who says how to sample where a request doesn't: OpenAI (temperature 1), or the model's author.",
    ),
]


@attrs.frozen(kw_only=True)
class Api:
    """Where and how the API is served. Empty ``names``: the model's own."""

    host: str
    port: int
    key: str | None = attrs.field(repr=False)
    names: tuple[str, ...]
    strict_fields: bool
    authors_defaults: bool


def api(host: str, port: int, key: str | None, names: Sequence[str] | None, strict: bool, defaults: str) -> Api:
    """The options together. Raises `RequestError` naming the one that is wrong."""
    host, key = only_api_host(host), read_key(key)
    if key is None and not is_loopback(host):
        raise RequestError(
            f"--api-host {host} can be reached from other machines and needs a key: set TRUECLUSTER_API_KEY, or "
            "serve on 127.0.0.1"
        )
    if not all(name.strip() for name in names or ()):
        raise RequestError("--served-model-name is empty; give a name")
    if defaults not in ("openai", "model"):
        raise RequestError(f"--generation-defaults {defaults!r} is not known; choose openai or model")
    return Api(
        host=host,
        port=port,
        key=key,
        names=tuple(dict.fromkeys(names or ())),
        strict_fields=strict,
        authors_defaults=defaults == "model",
    )


def read_key(given: str | None) -> str | None:
    """The API's key, by option or environment. Raises `RequestError` for one that no header can carry."""
    key = os.environ.get("TRUECLUSTER_API_KEY") if given is None else given
    if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
        raise RequestError(
            "the API's key must be of printable ASCII without spaces; give another with --api-key or "
            "TRUECLUSTER_API_KEY, or leave it out"
        )
    return key


def invitation(host: str, port: int) -> str:
    """What to do with an API that is served there, for people."""
    return f"open http://{shown(to_dial(host), port)}/ in a browser to chat and to see the cluster"
