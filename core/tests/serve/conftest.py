"""A real server on a port that the system chose, in front of an engine that says what a test tells it to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import attrs
import httpx
import openai
import pytest
from cluster_views import EMPTY
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from truecluster._engine.requests import Event, FinishedEvent, OnEvent, Request, TokenEvent
from truecluster._engine.tally import Tally
from truecluster._serve import Readiness, ServeOptions, create_app, listen, serve
from truecluster._text import TextModel
from truecluster._text.templates import ChatTemplates
from truecluster._text.tokenizer import Tokenizer as OurTokenizer
from truecluster.api import TokenizerData, TrueClusterError

END = 128
"""The id of the token that ends a turn; the ids below are those of ASCII."""
READY = Readiness(alive=True, ready=True, required=2, connected=2)
TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}<end>{% endfor %}"


def ascii_model(context: int) -> TextModel:
    letters = {chr(i): i for i in range(128)}
    library = Tokenizer(models.BPE(vocab=letters, merges=[]))
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = decoders.Fuse()
    library.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer = OurTokenizer(TokenizerData(json=library.to_str(), eos="<end>"))
    templates = ChatTemplates({"default": TEMPLATE}, tokenizer)
    eos = frozenset({END})
    return TextModel(tokenizer=tokenizer, templates=templates, eos=eos, chat_eos=eos, context=context, vocab=140)


def answer(text: str) -> list[Event]:
    """The events of a text that ends by itself: its letters, and one more token for the end."""
    return [*map(TokenEvent, text.encode()), FinishedEvent(reason="stop", generated=len(text) + 1)]


@attrs.define
class FakeHandle:
    cancelled: threading.Event = attrs.field(factory=threading.Event)

    def cancel(self) -> None:
        self.cancelled.set()


@attrs.define
class FakeEngine:
    """Answers with ``events``, or what is in ``by_choice``; keeps a request waiting where there are none."""

    events: list[Event] = attrs.field(factory=lambda: answer("Hello"))
    by_choice: list[list[Event]] = attrs.field(factory=list)
    asked: list[Request] = attrs.field(factory=list)
    handles: list[FakeHandle] = attrs.field(factory=list)
    refuse: TrueClusterError | None = None

    def submit(self, request: Request, on_event: OnEvent) -> FakeHandle:
        if self.refuse:
            raise self.refuse
        self.asked.append(request)
        self.handles.append(FakeHandle())
        events = self.by_choice[request.choice] if self.by_choice else self.events
        threading.Thread(target=lambda: [on_event(event) for event in events], daemon=True).start()
        return self.handles[-1]


@attrs.define
class FakeState:
    engine: FakeEngine = attrs.field(factory=FakeEngine)
    text: TextModel = attrs.field(factory=lambda: ascii_model(context=100))
    model_names: Sequence[str] = ("org/tiny", "tiny")
    created: int = 1_700_000_000
    readiness: Readiness = READY
    leaving: bool = False
    view: dict[str, Any] = attrs.field(factory=lambda: EMPTY)
    counted: Tally = attrs.field(factory=Tally)

    def ready(self) -> Readiness:
        return self.readiness

    def cluster(self) -> dict[str, Any]:
        return self.view

    def tally(self) -> Tally:
        return self.counted


@attrs.define
class Running:
    """A server, and what is behind it."""

    state: FakeState
    port: int
    stopped: threading.Event = attrs.field(factory=threading.Event)
    _cancel: threading.Event = attrs.field(factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._cancel.set()
        assert self.stopped.wait(20), "the server goes on"


@contextlib.contextmanager
def started(options: ServeOptions = ServeOptions()) -> Iterator[Running]:  # noqa: B008
    state, sock = FakeState(), listen("127.0.0.1", 0)
    server = Running(state, sock.getsockname()[1])

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(serve, create_app(state, options), sock)
            while not server._cancel.is_set():
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()

    def work() -> None:
        anyio.run(main)
        server.stopped.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)


@pytest.fixture(scope="session")
def start() -> Any:
    """Starts a server with given options; a context manager."""
    return started


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with started() as server:
        yield server


@pytest.fixture
def running(server: Running) -> Running:
    """The module's server, with nothing left of what other tests asked."""
    server.state.engine = FakeEngine()
    server.state.readiness = READY
    server.state.leaving = False
    server.state.view = EMPTY
    return server


@pytest.fixture
def stoppable() -> Iterator[Running]:
    with started() as server:
        yield server


@pytest.fixture
def official(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=20) as client:
        yield client
