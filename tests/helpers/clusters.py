"""A coordinator in this process with its nodes, in threads of it or as real worker processes: runs, step by step."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import anyio
import attrs
import torch
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.to_thread import run_sync
from goldens import Golden

from truecluster._cli import local, options
from truecluster._cluster.admission import Admission
from truecluster._cluster.coordinator import Coordinator
from truecluster._cluster.local import Join, Workers
from truecluster._cluster.model import ClusterModel, ModelOptions, load_model
from truecluster._cluster.settings import ClusterOptions
from truecluster._engine.engine import Engine
from truecluster._engine.requests import Event, FinishedEvent, Request, TokenEvent
from truecluster._node.transports import Transports
from truecluster._node.worker import Node, NodeOptions
from truecluster._pipeline.run import Run, Step
from truecluster._registry import Registry
from truecluster._wire.steps import Opened, Page, Row
from truecluster.api import Limits
from truecluster.nn import PAGE

torch.set_num_threads(1)


@attrs.frozen(kw_only=True)
class Layout:
    """How many nodes, over what, and where the head lies."""

    nodes: int = 1
    transport: str = "memory"
    head: options.HeadPlace = "coordinator"
    node_options: tuple[str, ...] = ()
    """What every worker process is told besides."""

    def __str__(self) -> str:
        return "-".join([str(self.nodes), self.transport, self.head, *self.node_options])


@attrs.define(eq=False)
class Cluster:
    """A coordinator at work, without an engine; ``portal`` leads to its event loop."""

    model: ClusterModel
    coordinator: Coordinator
    portal: BlockingPortal

    @contextmanager
    def run(self) -> Iterator[Run]:
        """A run to drive by hand."""
        run = self.coordinator.create()
        assert run is not None
        try:
            yield run
        finally:
            run.complete()
            self.coordinator.release(run)

    def answer(self, prompts: Sequence[Sequence[int]], max_tokens: int, together: bool = True) -> list[list[int]]:
        """Greedy answers to prompts in tokens, all under way at once or one by one, by an engine of their own."""
        engine = Engine(self.coordinator)
        engine.start()
        answers: list[Answer] = []
        try:
            for prompt in prompts:
                answers.append(Answer())
                request = Request(prompt=tuple(prompt), max_tokens=max_tokens, eos=frozenset())
                engine.submit(request, answers[-1].hear)
                if not together:
                    answers[-1].wait()
            return [answer.wait() for answer in answers]
        finally:
            engine.stop(20)


@attrs.define(eq=False)
class Answer:
    """Collects what an engine says of one request."""

    ids: list[int] = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)
    failure: str | None = None

    def hear(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self.ids.append(event.id)
        elif isinstance(event, FinishedEvent):
            self.failure = event.message
            self.ended.set()

    def wait(self) -> list[int]:
        assert self.ended.wait(90), "the answer did not come"
        assert self.failure is None, self.failure
        return self.ids


class Quiet:
    """A `truecluster._cluster.report.Report` that nobody reads."""

    def say(self, line: str) -> None:
        pass

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        yield lambda done: None


@attrs.frozen
class Agreement:
    """``equal`` of ``decidable`` steps are the golden ones where every token before them is given."""

    equal: int
    decidable: int

    @property
    def share(self) -> float:
        return self.equal / self.decidable


def agreement(made: Cluster, cases: Sequence[Golden]) -> Agreement:
    """Every golden answer in one step, after its prompt."""
    with made.run() as run:
        answers = forced(run, [(case.ids, case.greedy) for case in cases])
    steps = [(case, answer, step) for case, answer in zip(cases, answers, strict=True) for step in case.decidable]
    return Agreement(sum(answer[step] == case.greedy[step] for case, answer, step in steps), len(steps))


def forced(run: Run, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[int]]:
    """Per (prompt, answer) the likeliest token at each step of the answer, every token before it given."""
    return [_force(run, number, *pair) for number, pair in enumerate(sequences, 1)]


def _force(run: Run, number: int, prompt: Sequence[int], answer: Sequence[int]) -> list[int]:
    """One sequence in one step; its pages are free again once it is released, in band with the next."""
    ids = [*prompt, *answer[:-1]]
    run.send(
        Step(
            rows=(Row(number, 0, len(ids), len(answer)),),
            ids=ids,
            opened=(Opened(number),),
            pages=tuple(Page(number, page) for page in range(-(-len(ids) // PAGE))),
            released=(number - 1,) if number > 1 else (),
            prefill=True,
        )
    )
    return run.receive().ids


@contextmanager
def cluster(
    reference: Path, work_dir: Path, layout: Layout, quant: str = "fp16", restarts: bool = False
) -> Iterator[Cluster]:
    """Everything at work; threads and processes are gone when the block ends."""
    registry = Registry.installed()
    launch = local.Launch(
        model=str(reference),
        arch=None,
        quant=quant,
        dtype=None,
        planner="even",
        transport=layout.transport,
        head=layout.head,
        nodes=layout.nodes,
        min_nodes=layout.nodes,
        threads=1,
        device="cpu",
        work_dir=work_dir,
        cache=10**10,
        log_level="warning",
    )
    children = (
        nullcontext()
        if layout.transport == "memory"
        else Workers([[*each, *layout.node_options] for each in local._arguments(launch)], {})
    )
    with (
        children as workers,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_serve(registry, launch, workers, restarts)) as made,
    ):
        yield made


@asynccontextmanager
async def _serve(
    registry: Registry, launch: local.Launch, workers: Workers | None, restarts: bool
) -> AsyncIterator[Cluster]:
    transports = Transports(registry)
    streams = transports.streams(launch.transport)
    listener = await streams.listen("127.0.0.1", 0)
    host, port = streams.address(listener)
    wanted = ModelOptions(reference=launch.model, quant=launch.quant, work_dir=launch.work_dir)
    model = await run_sync(load_model, registry, wanted)
    said = ClusterOptions(
        key=b"key",
        transport=launch.transport,
        limits=Limits(head=launch.head, max_nodes=launch.nodes),
        min_nodes=launch.nodes,
        device="cpu",
        threads=1,
        restarts=restarts,
    )
    admission = Admission(b"key")
    async with (
        listener,
        anyio.create_task_group() as nodes,
        BlockingPortal() as portal,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, admission.accept)
        coordinator = await run_sync(Coordinator, registry, model, said, transports, Quiet(), admission, portal)
        tasks.start_soon(coordinator.serve)
        await coordinator.listening.wait()
        if workers is not None:
            workers.join(Join(host=host, port=port, key="key"))
        for index in range(0 if workers else launch.nodes):
            node = NodeOptions(
                host=host,
                port=port,
                key=b"key",
                node_id=f"worker-{index + 1}",
                work_dir=launch.work_dir,
                device="cpu",
                threads=1,
                transport=launch.transport,
            )
            nodes.start_soon(Node(registry, node, transports).serve)
        while workers is None and len(coordinator.nodes.ready()) < launch.nodes:
            await anyio.sleep(0.01)
        try:
            yield Cluster(model, coordinator, portal)
        finally:
            await coordinator.close()
            tasks.cancel_scope.cancel()
    transports.close()
