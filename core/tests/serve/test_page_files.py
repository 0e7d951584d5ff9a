"""The page's files over a real socket; what they do is shown in a browser."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import httpx
import pytest
from openai_shapes import validate

from truecluster._serve import ServeOptions

NAMES = sorted(file.name for file in (files("truecluster._serve") / "page").iterdir())
PATHS = ["/", *(f"/page/{name}" for name in NAMES if name != "index.html")]
KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_file_says_what_it_is_and_what_it_may(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    name = path.removeprefix("/page/") if path != "/" else "index.html"
    assert response.content == (files("truecluster._serve") / "page" / name).read_bytes()
    assert response.headers["content-type"] == KINDS[name.rpartition(".")[2]]
    policy = [part.strip() for part in response.headers["content-security-policy"].split(";")]
    assert policy[0] == "default-src 'self'"
    assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} == set(policy[1:])
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


def test_a_file_that_is_there_already_is_not_sent_again(client: httpx.Client) -> None:
    """RFC 9110, 13.1.2: a weak comparison of any of the tags, or a star."""
    first = client.get("/")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "no-cache"
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get("/", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-security-policy" in again.headers
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200
    assert client.get("/page/page.css", headers={"if-none-match": tag}).status_code == 200


@pytest.mark.parametrize("path", ["/page", "/page/", "/page/index.html", "/page/../app.py", "/page/%2e%2e/app.py"])
def test_there_is_nothing_beside_the_files(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    validate(response.json(), "ErrorResponse")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_files_are_only_read(client: httpx.Client, method: str) -> None:
    response = client.request(method, "/")
    assert response.status_code == 405
    validate(response.json(), "ErrorResponse")


def test_the_page_needs_no_key_but_what_it_asks_does(start: Any) -> None:
    with start(ServeOptions(api_key="secret-1")) as server, httpx.Client(base_url=server.url, timeout=20) as client:
        assert all(client.get(path).status_code == 200 for path in PATHS)
        assert all("secret-1" not in client.get(path).text for path in PATHS)
        assert {client.get(path).status_code for path in ("/cluster", "/v1/models", "/page", "/page/other.js")} == {401}


def test_nothing_in_the_files_makes_html_of_text_or_asks_elsewhere() -> None:
    for name in NAMES:
        text = (files("truecluster._serve") / "page" / name).read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "style=", "onclick="):
            assert word not in text, name
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", ""), name
