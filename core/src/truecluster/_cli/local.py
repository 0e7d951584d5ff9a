"""The body of ``tc run``: workers first, then everything heavy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from truecluster._cluster.local import Join, Workers
from truecluster._cluster.settings import ClusterOptions, RunSettings
from truecluster._plan import Room
from truecluster._registry import Registry
from truecluster._wire.addresses import shown
from truecluster.api import DType, NodeError, TrueClusterError

from .api import Api, invitation
from .endings import Endings
from .options import Asking, HeadPlace, check_planner, new_key, reaches_only_here, say, split_planner
from .progress import Progress

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from truecluster._cluster.model import ClusterModel
    from truecluster._text import TextModel

    from .hosting import Hosted, HostOptions


@attrs.frozen(kw_only=True)
class Launch:
    """What to run and where."""

    model: str
    arch: str | None
    quant: str | None
    dtype: DType | None
    planner: str
    transport: str
    head: HeadPlace
    room: Room = attrs.field(factory=Room)
    nodes: int
    min_nodes: int
    settings: RunSettings = attrs.field(factory=RunSettings)
    threads: int | None
    device: str
    work_dir: Path
    hf_cache_dir: Path | None = None
    trust_remote_code: bool = False
    cache: int
    log_level: str


Body = Callable[["Hosted", "TaskGroup"], Awaitable[None]]
Check = Callable[["ClusterModel", "TextModel"], None]


def answer(launch: Launch, asking: Asking, prompt: str) -> None:
    """Answer one prompt."""
    started = time.monotonic()

    async def body(hosted: Hosted, outside: TaskGroup) -> None:
        from anyio.to_thread import run_sync

        from .asking import ask

        await run_sync(ask, hosted, asking, prompt, started, abandon_on_cancel=True)

    def check(model: ClusterModel, text: TextModel) -> None:
        from .asking import messages_of, request_of, say_ignored

        say_ignored(model)
        request_of(model, text, asking, messages_of(asking, prompt), prompt)

    _launch(launch, body, check)


def chat(launch: Launch, asking: Asking) -> None:
    """Talk until the input ends."""

    async def body(hosted: Hosted, outside: TaskGroup) -> None:
        from .chat import talk

        await talk(hosted, asking)

    def check(model: ClusterModel, text: TextModel) -> None:
        from .asking import options_of, say_ignored

        say_ignored(model)
        options_of(model, asking)

    _launch(launch, body, check)


def serve(launch: Launch, api: Api) -> None:
    """Keep the API up until interrupted."""
    from truecluster._serve.server import listen

    sock = listen(api.host, api.port)

    async def body(hosted: Hosted, outside: TaskGroup) -> None:
        from .hosting import serve_api

        where = shown(api.host, sock.getsockname()[1])
        say(f"serving {(api.names or hosted.model_names)[0]} on http://{where}/v1 (Ctrl-C stops)")
        say(invitation(api.host, sock.getsockname()[1]))
        outside.start_soon(serve_api, hosted, api, sock)  # ends after the engine, which ends its requests
        await hosted.failed()

    _launch(launch, body, lambda model, text: None)


def _launch(launch: Launch, body: Body, check: Check) -> None:
    registry = Registry.installed()
    _check_names(registry, launch)
    key, here = new_key(), reaches_only_here(registry, launch.transport)
    with Endings() as endings, nullcontext() if here else Workers(_arguments(launch), {}) as workers:
        from .running import run

        run(endings, _main, registry, launch, key, workers, body, check)


def _check_names(registry: Registry, launch: Launch) -> None:
    """Everything that can be refused before anything is started."""
    if launch.arch is not None:
        registry.spec("architecture", launch.arch)
    if launch.quant is not None:
        registry.recipe(launch.quant)
    check_planner(registry, *split_planner(launch.planner))
    registry.check_reference(launch.model)


def _arguments(launch: Launch) -> list[list[str]]:
    common = ["--device", launch.device, "--work-dir", str(launch.work_dir), "--transport", launch.transport]
    common += ["--cache-max-gb", str(launch.cache / 1e9)]
    common += ["--log-level", launch.log_level]
    common += ["--threads", str(launch.threads)] if launch.threads else []
    return [[*common, "--node-id", _node_id(i)] for i in range(launch.nodes)]


def _node_id(index: int) -> str:
    return f"worker-{index + 1}"


async def _main(
    registry: Registry, launch: Launch, key: str, workers: Workers | None, body: Body, check: Check
) -> None:
    import anyio

    from truecluster._node.errors import one_error
    from truecluster._node.transports import Transports

    from .hosting import hosting

    transports = Transports(registry)
    try:
        with _causes(workers), one_error():
            async with (
                anyio.create_task_group() as outside,
                anyio.create_task_group() as nodes,
                hosting(registry, transports, _host_options(launch, key, check)) as hosted,
                anyio.create_task_group() as tasks,
            ):
                if workers is None:
                    for index in range(launch.nodes):
                        nodes.start_soon(_serve_here, registry, transports, launch, hosted, key, index)
                else:
                    workers.join(Join(host=hosted.address[0], port=hosted.address[1], key=key))
                    tasks.start_soon(_watch, workers, hosted)
                await body(hosted, outside)
                tasks.cancel_scope.cancel()
    finally:
        transports.close()


def _host_options(launch: Launch, key: str, check: Check) -> HostOptions:
    from truecluster._cluster.model import ModelOptions
    from truecluster.api import Limits

    from .hosting import HostOptions
    from .sources import open_options

    report = Progress()
    planner, planner_options = split_planner(launch.planner)
    return HostOptions(
        model=ModelOptions(
            reference=launch.model,
            arch=launch.arch,
            quant=launch.quant,
            dtype=launch.dtype,
            work_dir=launch.work_dir,
            cache=launch.cache,
            open=open_options(report, launch.hf_cache_dir, launch.trust_remote_code),
        ),
        cluster=ClusterOptions(
            key=key.encode(),
            transport=launch.transport,
            planner=planner,
            planner_options=planner_options,
            limits=Limits(head=launch.head, max_nodes=launch.nodes),
            room=launch.room,
            min_nodes=launch.min_nodes,
            settings=launch.settings,
            device=launch.device,
            threads=launch.threads,
            restarts=False,
        ),
        node_host="127.0.0.1",
        node_port=0,
        report=report,
        check=check,
    )


async def _serve_here(
    registry: Registry, transports: Any, launch: Launch, hosted: Hosted, key: str, index: int
) -> None:
    """A node as a task of this process, for transports that reach only it."""
    from truecluster._node.worker import Node, NodeOptions

    options = NodeOptions(
        host=hosted.address[0],
        port=hosted.address[1],
        key=key.encode(),
        node_id=_node_id(index),
        work_dir=launch.work_dir,
        cache=launch.cache,
        device=launch.device,
        threads=launch.threads,
        transport=launch.transport,
    )
    try:
        await Node(registry, options, transports).serve()
    except TrueClusterError:
        if not hosted.leaving:  # or it is only that nobody listens any more
            raise


async def _watch(workers: Workers, hosted: Hosted) -> None:
    """A worker that ends by itself ends the run, also before it has joined."""
    import anyio

    while (ended := workers.ended()) is None:
        await anyio.sleep(0.2)
    hosted.coordinator.give_up(_why(*ended))


def _why(index: int, code: int) -> NodeError:
    if code >= 0:
        return NodeError(f"{_node_id(index)} ended with status {code}; its words are above")
    return NodeError(
        f"{_node_id(index)} was killed by signal {-code}; if nobody did that, this machine was out of memory: use "
        "fewer --nodes, or a smaller --quant"
    )


@contextmanager
def _causes(workers: Workers | None) -> Iterator[None]:
    """What fails because a worker was killed is told as that: its neighbours know only of broken connections."""
    try:
        yield
    except TrueClusterError as error:
        ended = workers.ended() if workers else None
        if ended is None or ended[1] >= 0:
            raise
        raise _why(*ended) from error
