"""The body of ``tc run``: workers first, then everything heavy."""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from truecluster._cluster.local import Join, Workers
from truecluster._registry import Registry
from truecluster.api import NodeError, TransportSpec, TrueClusterError

from .options import HeadPlace, new_key, say, split_planner
from .terminal import Terminal

if TYPE_CHECKING:
    from truecluster._cluster.model import ClusterModel
    from truecluster._text import TextModel, TextOptions, TextRequest

    from .hosting import Hosted, HostOptions


@attrs.frozen(kw_only=True)
class Launch:
    """What to run and where."""

    model: str
    arch: str | None
    quant: str | None
    planner: str
    transport: str
    head: HeadPlace
    nodes: int
    threads: int | None
    device: str
    work_dir: Path
    log_level: str


@attrs.frozen(kw_only=True)
class Asking:
    """How to answer; ``None`` takes the model's generation defaults, else greedy."""

    max_tokens: int
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: tuple[str, ...]
    system: str | None
    raw: bool
    as_json: bool


Body = Callable[["Hosted"], Awaitable[None]]
Check = Callable[["ClusterModel", "TextModel"], None]


def answer(launch: Launch, asking: Asking, prompt: str) -> None:
    """Answer one prompt."""
    started = time.monotonic()

    async def body(hosted: Hosted) -> None:
        from anyio.to_thread import run_sync

        await run_sync(_answer, hosted, asking, prompt, started, abandon_on_cancel=True)

    def check(model: ClusterModel, text: TextModel) -> None:
        _request(model, text, asking, _messages(asking, prompt), prompt)

    _launch(launch, body, check)


def chat(launch: Launch, asking: Asking) -> None:
    """Talk until the input ends."""

    async def body(hosted: Hosted) -> None:
        from anyio.to_thread import run_sync

        await run_sync(_chat, hosted, asking, abandon_on_cancel=True)

    def check(model: ClusterModel, text: TextModel) -> None:
        _options(model, asking)

    _launch(launch, body, check)


def serve(launch: Launch, host: str, port: int) -> None:
    """Keep the API up until interrupted."""
    from truecluster._serve.server import listen

    sock = listen(host, port)
    name = f"[{host}]" if ":" in host else host

    async def body(hosted: Hosted) -> None:
        from .hosting import serve_api

        say(f"serving {hosted.model.name} on http://{name}:{sock.getsockname()[1]}/v1 (Ctrl-C stops)")
        await serve_api(hosted, sock)

    _launch(launch, body, lambda model, text: None)


def _launch(launch: Launch, body: Body, check: Check) -> None:
    registry = Registry.installed()
    transport = _check_names(registry, launch)
    key = new_key()
    with nullcontext() if transport.local else Workers(_arguments(launch), {}) as workers:
        import anyio

        anyio.run(_main, registry, launch, key, workers, body, check)


def _check_names(registry: Registry, launch: Launch) -> TransportSpec:
    """Everything that can be refused before anything is started."""
    if launch.arch is not None:
        registry.spec("architecture", launch.arch)
    if launch.quant is not None:
        registry.recipe(launch.quant)
    registry.spec("planner", split_planner(launch.planner)[0])
    registry.check_reference(launch.model)
    spec = registry.spec("transport", launch.transport)
    assert isinstance(spec, TransportSpec)
    return spec


def _arguments(launch: Launch) -> list[list[str]]:
    common = ["--device", launch.device, "--work-dir", str(launch.work_dir), "--transport", launch.transport]
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
        with one_error():
            async with (
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
                await body(hosted)
                tasks.cancel_scope.cancel()
    finally:
        transports.close()


def _host_options(launch: Launch, key: str, check: Check) -> HostOptions:
    from truecluster._cluster.coordinator import ClusterOptions
    from truecluster._cluster.model import ModelOptions
    from truecluster.api import Limits, OpenOptions

    from .hosting import HostOptions

    planner, planner_options = split_planner(launch.planner)
    return HostOptions(
        model=ModelOptions(
            reference=launch.model,
            arch=launch.arch,
            quant=launch.quant,
            work_dir=launch.work_dir,
            open=OpenOptions(say=say),
        ),
        cluster=ClusterOptions(
            key=key.encode(),
            transport=launch.transport,
            planner=planner,
            planner_options=planner_options,
            limits=Limits(head=launch.head, max_nodes=launch.nodes),
            exact_nodes=launch.nodes,
            device=launch.device,
            threads=launch.threads,
            restarts=False,
        ),
        node_host="127.0.0.1",
        node_port=0,
        report=Terminal(),
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

    while (code := workers.ended()) is None:
        await anyio.sleep(0.2)
    hosted.coordinator.give_up(NodeError(f"a worker process ended with status {code}; its words are above"))


def _answer(hosted: Hosted, asking: Asking, prompt: str, started: float) -> None:
    from truecluster._text import TextDelta, TextFinished, stream

    request = _request(hosted.model, hosted.text, asking, _messages(asking, prompt), prompt)
    text, finished, first = "", None, 0.0
    hosted.wait_ready()
    loaded = time.monotonic()
    for event in stream(hosted.engine, request):
        if isinstance(event, TextDelta):
            first = first or time.monotonic()
            text += event.text
            if not asking.as_json:
                print(event.text, end="", flush=True)
        elif isinstance(event, TextFinished):
            finished = event
    assert finished is not None
    if finished.reason == "error":
        raise NodeError(finished.message or "the run failed")
    if asking.as_json:
        ended = time.monotonic()
        usage = _usage(len(request.tokens.prompt), finished.generated)
        timings = {
            "load_s": round(loaded - started, 3),
            "ttft_s": round(first - loaded, 3) if first else None,
            "tpot_s": round((ended - first) / (finished.generated - 1), 5)
            if finished.generated > 1 and first
            else None,
        }
        print(
            json.dumps(
                {
                    "text": text,
                    "token_ids": list(finished.ids),
                    "finish_reason": finished.reason,
                    "usage": usage,
                    "plan": hosted.report(),
                    "timings": timings,
                },
                ensure_ascii=False,
            )
        )
    else:
        print()


def _usage(prompt: int, generated: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


def _messages(asking: Asking, prompt: str) -> list[dict[str, str]]:
    system = [{"role": "system", "content": asking.system}] if asking.system is not None else []
    return [*system, {"role": "user", "content": prompt}]


def _request(
    model: ClusterModel, text: TextModel, asking: Asking, messages: list[dict[str, str]], prompt: str
) -> TextRequest:
    """Raises `RequestError` for what can't be asked of the model."""
    options = _options(model, asking)
    return text.prepare_completion(prompt, options) if asking.raw else text.prepare_chat(messages, options)


def _options(model: ClusterModel, asking: Asking) -> TextOptions:
    from truecluster._engine.requests import Sampling
    from truecluster._text import TextOptions

    generation = model.bound.checkpoint.generation
    own = generation if generation.get("do_sample") else {"temperature": 0.0, "top_p": 1.0}
    sampling = Sampling(
        temperature=own.get("temperature", 1.0) if asking.temperature is None else asking.temperature,
        top_p=own.get("top_p", 1.0) if asking.top_p is None else asking.top_p,
        seed=asking.seed,
    )
    return TextOptions(max_tokens=asking.max_tokens, stop=asking.stop, sampling=sampling)


def _read_line(hosted: Hosted) -> str:
    """What the user types; waits only as long as there is somebody to answer."""
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        hosted.check_alive()
    return sys.stdin.readline().strip()


def _chat(hosted: Hosted, asking: Asking) -> None:
    from truecluster._text import TextDelta, stream

    hosted.wait_ready()
    messages = _messages(asking, "")[:-1]
    say("type a message; an empty line or Ctrl-D ends the chat")
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = _read_line(hosted)
        if not line:
            return
        messages.append({"role": "user", "content": line})
        text = ""
        for event in stream(hosted.engine, _request(hosted.model, hosted.text, asking, messages, line)):
            if isinstance(event, TextDelta):
                text += event.text
                print(event.text, end="", flush=True)
        print()
        messages.append({"role": "assistant", "content": text})
