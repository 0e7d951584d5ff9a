"""The page at ``/``: files that hold nothing of anybody's, so that they need no key; its data come from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files

import attrs
from fastapi import FastAPI, Request, Response

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PATHS = {"index.html": ("/",), "icon.svg": ("/page/icon.svg", "/favicon.ico")}
"""Where files aren't served by their names alone: browsers ask for the icon beside what isn't the page, too."""
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # kept, and asked for again by its tag: a new version is seen at once
}


@attrs.frozen
class PageFile:
    """A file of the page, and the path that it is served at."""

    path: str
    kind: str
    content: bytes = attrs.field(repr=False)
    tag: str = attrs.field(init=False)

    @tag.default
    def _hash(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    async def answer(self, request: Request) -> Response:
        """The file; 304 where the client has it already."""
        headers = {**_HEADERS, "etag": self.tag}
        known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
        if self.tag in known or known == ["*"]:
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.kind)


def _page() -> Iterator[PageFile]:
    for file in (files("truecluster._serve") / "page").iterdir():
        for path in _PATHS.get(file.name, (f"/page/{file.name}",)):
            yield PageFile(path, _KINDS[file.name.rpartition(".")[2]], file.read_bytes())


PAGE = tuple(_page())
"""All of it; small, and read once."""


def install(app: FastAPI) -> None:
    """Serve the page with ``app``."""
    for file in PAGE:
        app.add_api_route(file.path, file.answer, methods=["GET"], response_model=None)
