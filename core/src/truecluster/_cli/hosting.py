"""What `tc run` and `tc cluster` share: a coordinator with its engine, its text model, and maybe its API."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
from anyio.from_thread import BlockingPortal, check_cancelled
from anyio.to_thread import run_sync

from truecluster._cluster.admission import Admission
from truecluster._cluster.coordinator import Coordinator
from truecluster._cluster.meter import Meter
from truecluster._cluster.model import ClusterModel, ModelOptions, load_model
from truecluster._cluster.nodes import Nodes
from truecluster._cluster.report import Report
from truecluster._cluster.settings import ClusterOptions
from truecluster._engine.engine import Engine
from truecluster._engine.tally import Tally
from truecluster._engine.view import engine_view
from truecluster._node.transports import Transports
from truecluster._registry import Events, Registry
from truecluster._serve.app import create_app
from truecluster._serve.options import OPENAI, ServeOptions
from truecluster._serve.server import serve
from truecluster._serve.state import Readiness
from truecluster._text import GenerationDefaults, TextModel
from truecluster.api import NodeError

from .api import Api

STOP_SECONDS = 15.0
_GENERATED = "generated tokens"


@attrs.frozen(kw_only=True)
class HostOptions:
    """Everything that a coordinator is made from. ``node_host`` is where it listens for nodes.

    ``check`` is called, blocking, once the model is open and before a weight is read; it raises to refuse.
    """

    model: ModelOptions
    cluster: ClusterOptions
    node_host: str
    node_port: int
    report: Report
    check: Callable[[ClusterModel, TextModel], None] = lambda model, text: None


@attrs.define(eq=False)
class Hosted:
    """A coordinator at work; also the state that the API serves from."""

    registry: Registry
    model: ClusterModel
    coordinator: Coordinator
    engine: Engine
    whole_text: TextModel
    address: tuple[str, int]
    created: int = attrs.field(factory=lambda: int(time.time()))
    leaving: bool = False
    served_names: tuple[str, ...] = ()
    began: float = attrs.field(factory=time.monotonic)
    meter: Meter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.meter = Meter(lambda: {_GENERATED: self.engine.tally.generated_tokens})

    @property
    def text(self) -> TextModel:
        """With the context that there is room for."""
        return attrs.evolve(self.whole_text, context=self.coordinator.context)

    @property
    def model_names(self) -> tuple[str, ...]:
        return self.served_names or (self.model.name,)

    def wait_ready(self) -> None:
        """Block until a run is there. Raises why there will be none."""
        while not self.engine.wait_ready(0.2):
            self.check_alive()

    def check_alive(self) -> None:
        """Raises why nothing will be answered any more."""
        if self.engine.failure is not None:
            raise self.engine.failure
        if self.leaving:
            raise NodeError("the cluster has been stopped")

    async def failed(self) -> None:
        """Wait until the engine has given up, and raise why."""
        while self.engine.failure is None:
            await anyio.sleep(0.2)
        raise self.engine.failure

    def ready(self) -> Readiness:
        nodes, stalled = self.coordinator.nodes.ready(), self.engine.load.stalled_s
        return Readiness(
            alive=self.engine.failure is None and not self.leaving,
            ready=self.coordinator.running and (stalled is None or stalled <= self.coordinator.step_timeout),
            required=self.coordinator.needed_nodes,
            connected=len(nodes),
            stalled_seconds=stalled,
        )

    def cluster(self) -> dict[str, Any]:
        engine, uptime = self.engine, time.monotonic() - self.began
        per_second = self.meter.rate(_GENERATED)
        return {
            **self.coordinator.view(),
            "model": self.model_names[0],
            **engine_view(engine.load, engine.tally, per_second),
            "uptime_seconds": uptime,
        }

    def tally(self) -> Tally:
        return self.engine.tally


@asynccontextmanager
async def hosting(registry: Registry, transports: Transports, options: HostOptions) -> AsyncIterator[Hosted]:
    """Listen for nodes first, then load; leaving the block stops the engine, then the nodes."""
    streams = transports.streams(options.cluster.transport)
    listener = await streams.listen(options.node_host, options.node_port)
    async with _telling(registry) as events, listener, anyio.create_task_group() as tasks:
        admission = Admission(options.cluster.key, Nodes(events))
        tasks.start_soon(listener.serve, admission.accept)
        model = await run_sync(load_model, registry, _cancellable(options.model))
        options.report.say(model.describe())
        text = await run_sync(_load_text, model, options.model.open.trust_remote_code)
        await run_sync(options.check, model, text)
        async with BlockingPortal() as portal:
            coordinator = await run_sync(
                Coordinator, registry, model, options.cluster, transports, options.report, admission, portal
            )
            engine = Engine(coordinator, events)
            tasks.start_soon(coordinator.serve)
            await coordinator.listening.wait()
            engine.start()
            hosted = Hosted(registry, model, coordinator, engine, text, streams.address(listener))
            tasks.start_soon(hosted.meter.watch)
            try:
                yield hosted
            except anyio.get_cancelled_exc_class():
                options.report.say("stopping")
                raise
            finally:
                hosted.leaving = True
                with anyio.CancelScope(shield=True):
                    coordinator.stop_creating()
                    await run_sync(engine.stop, STOP_SECONDS)
                    await coordinator.close()
                tasks.cancel_scope.cancel()


def _cancellable(options: ModelOptions) -> ModelOptions:
    """In a thread that an event loop waits for; Ctrl-C then ends a download too."""
    return attrs.evolve(options, open=attrs.evolve(options.open, check=check_cancelled))


def _load_text(model: ClusterModel, trust_remote_code: bool) -> TextModel:
    bound = model.bound
    size = bound.config
    return TextModel.load(bound.checkpoint, context=size.context, vocab=size.vocab, trust_remote_code=trust_remote_code)


@asynccontextmanager
async def _telling(registry: Registry) -> AsyncIterator[Events]:
    """Events for the installed observers, which have a while to hear the last ones once the block has ended."""
    events = Events(registry.observers)
    try:
        yield events
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(events.close)


async def serve_api(hosted: Hosted, api: Api, sock: socket.socket) -> None:
    """Serve the API until cancelled."""
    hosted.served_names = api.names
    own = GenerationDefaults.of(hosted.model.bound.checkpoint.generation).sampling
    options = ServeOptions(
        api_key=api.key, strict_fields=api.strict_fields, defaults=own if api.authors_defaults else OPENAI
    )
    await serve(create_app(hosted, options), sock)
