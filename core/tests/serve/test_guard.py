"""The API's key, the names of requests, and health, over real sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import httpx
import openai
import pytest
from fastapi.routing import APIRoute
from openai_shapes import validate

from truecluster._engine.requests import Sampling
from truecluster._serve import Readiness, ServeOptions
from truecluster._serve.app import routes

COMPLETION = {"model": "tiny", "prompt": "abc"}


@pytest.fixture(scope="module")
def guarded(start: Any) -> Iterator[Any]:
    with start(ServeOptions(api_key="secret-1")) as server:
        yield server


def every_route(state: Any) -> list[tuple[str, str]]:
    found = [route for route in routes(state, ServeOptions(), Counter()).routes if isinstance(route, APIRoute)]
    assert len(found) >= 6
    return [(method, route.path.replace("{name:path}", "tiny")) for route in found for method in route.methods or ()]


def test_every_route_but_health_and_the_page_needs_the_key(guarded: Any) -> None:
    """SEC-12: also with another method, a slash too many, and where there is no route at all."""
    own = every_route(guarded.state)
    page = {path for _, path in own if path in ("/", "/favicon.ico") or path.startswith("/page/")}
    assert "/page/main.js" in page
    free = {"/health", *page}
    more = [(method, path) for _, path in own if path not in page for method in ("HEAD", "OPTIONS", "GET", "POST")]
    endings = ("{0}/", "/{0}", "{0}?api_key=secret-1")
    variants = [(method, ending.format(path)) for method, path in own for ending in endings if path not in free]
    headers: list[dict[str, str]] = [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "secret-1"},
        {"authorization": "Basic secret-1"},
        {"authorization": "Bearer"},
        {"x-api-key": "secret-1"},
    ]
    with httpx.Client(base_url=guarded.url, timeout=20) as client:
        for method, path in {*own, *more, *variants, ("GET", "/page"), ("GET", "/page/nowhere"), ("GET", "//")}:
            if path in free:
                continue
            for header in headers:
                response = client.request(method, guarded.url + path, headers=header)
                assert response.status_code == 401, (method, path, header)
                assert response.headers["www-authenticate"] == "Bearer"
                if method != "HEAD":
                    validate(response.json(), "ErrorResponse")
                    assert response.json()["error"]["type"] == "authentication_error"
        assert client.get("/health").status_code == 200
    assert not guarded.state.engine.asked


def test_two_keys_are_none(guarded: Any) -> None:
    """Whoever sends two may be let through by one part of a chain and named by another."""
    headers = [("authorization", "Bearer secret-1"), ("authorization", "Bearer secret-1")]
    assert httpx.get(f"{guarded.url}/v1/models", headers=headers).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_key_opens_everything(guarded: Any, scheme: str) -> None:
    """RFC 9110, 11.1: a scheme's letters may be of either case."""
    headers = {"authorization": f"{scheme} secret-1"}
    assert httpx.get(f"{guarded.url}/v1/models", headers=headers).status_code == 200
    done = httpx.post(f"{guarded.url}/v1/completions", headers=headers, json={**COMPLETION, "stream": True})
    assert done.text.endswith("data: [DONE]\n\n")


def test_the_official_client_has_the_key_or_says_that_it_has_not(guarded: Any) -> None:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="secret-1", max_retries=0) as client:
        assert client.completions.create(model="tiny", prompt="abc").choices[0].text == "Hello"
    other = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="other", max_retries=0)
    with other, pytest.raises(openai.AuthenticationError) as refused:
        other.models.list()
    assert (refused.value.code, refused.value.type) == ("invalid_api_key", "authentication_error")


def test_health_tells_alive_and_ready_apart(client: httpx.Client, running: Any) -> None:
    """API-30: what the engine says, not only that HTTP answers."""
    response = client.get("/health")
    assert response.status_code == 200
    assert response.json() == {"alive": True, "ready": True, "required": 2, "connected": 2, "stalled_seconds": None}
    running.state.readiness = Readiness(alive=True, ready=False, required=3, connected=1)
    response = client.get("/health")
    assert (response.status_code, response.json()["alive"], response.json()["ready"]) == (503, True, False)
    running.state.readiness = Readiness(alive=True, ready=False, required=2, connected=2, stalled_seconds=61.5)
    response = client.get("/health")
    assert (response.status_code, response.json()["stalled_seconds"]) == (503, 61.5)
    running.state.readiness = Readiness(alive=False, ready=False, required=3, connected=1)
    assert client.get("/health").json()["alive"] is False


def test_answers_carry_a_name_of_their_own(client: httpx.Client) -> None:
    """SEC-16: what a user can quote, and the log has."""
    responses = [client.get("/health"), client.get("/nowhere"), client.post("/v1/completions", json=COMPLETION)]
    names = {response.headers["x-request-id"] for response in responses}
    assert len(names) == 3
    assert all(name.startswith("req_") for name in names)


def test_fields_that_no_schema_knows_are_refused_where_it_is_asked_for(start: Any) -> None:
    """API-36."""
    with start(ServeOptions(strict_fields=True)) as server:
        response = httpx.post(f"{server.url}/v1/completions", json={**COMPLETION, "logit_biass": {}})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "logit_biass")
        inside = {"stream": True, "stream_options": {"include_usag": True}}
        response = httpx.post(f"{server.url}/v1/completions", json={**COMPLETION, **inside})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "stream_options.include_usag")
        assert httpx.post(f"{server.url}/v1/completions", json=COMPLETION).status_code == 200


def test_what_a_request_leaves_open_is_as_the_options_say(start: Any) -> None:
    author = Sampling(temperature=0.6, top_p=0.9, top_k=20, repetition_penalty=1.1)
    with start(ServeOptions(defaults=author)) as server:
        for more in ({}, {"temperature": 0, "top_k": -1, "seed": 7}, {"top_p": None}):
            assert httpx.post(f"{server.url}/v1/completions", json={**COMPLETION, **more}).status_code == 200
        asked = [request.sampling for request in server.state.engine.asked]
    assert asked == [author, attrs.evolve(author, temperature=0.0, top_k=0, seed=7), author]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost", "LocalHost:8000", "127.0.0.1:1", "127.8.9.10", "[::1]", "[::1]:8000")),
        *((host, 403) for host in ("evil.example", "evil.example:8000", "192.168.1.5", "0.0.0.0", "[fe80::1]:80")),
        *(
            (host, 403)
            for host in ("", ":80", "::1", "localhost.evil.example", "localhost@evil.example", "127.0.0.1:x")
        ),
    ],
)
def test_without_a_key_only_this_machines_own_names_are_answered(client: httpx.Client, host: str, status: int) -> None:
    """DNS rebinding: a browser believes that the page of whoever owns a name may read what is there."""
    response = client.get("/v1/models", headers={"host": host})
    assert response.status_code == status
    if status == 403:
        validate(response.json(), "ErrorResponse")
        assert response.json()["error"]["code"] == "host_not_allowed"
        assert "--api-key" in response.json()["error"]["message"]


def test_another_name_reaches_no_route_without_a_key_and_every_one_with_it(client: httpx.Client, guarded: Any) -> None:
    elsewhere = {"host": "evil.example"}
    for method, path in every_route(guarded.state):
        assert client.request(method, path, headers=elsewhere).status_code == 403, path
    assert client.get("/nowhere", headers=elsewhere).status_code == 403
    keyed = {**elsewhere, "authorization": "Bearer secret-1"}
    assert httpx.get(f"{guarded.url}/v1/models", headers=keyed).status_code == 200
    assert httpx.get(f"{guarded.url}/", headers=elsewhere).status_code == 200
