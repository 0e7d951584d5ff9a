"""The engine over real runs: threads, edges and stages of a tiny model."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import pytest
from local_runs import LocalFactory, spans
from tiny_models import TinyModel

from truecluster._engine.engine import Engine, Handle
from truecluster._engine.groups import Groups
from truecluster._engine.requests import FinishedEvent, Request, Sampling, TokenEvent
from truecluster._pipeline.machines import RunState
from truecluster.api import Busy, Edge, NodeError, StateError, TrueClusterError

PROMPTS = [[5, 6, 7], [9], [int(i * 7 % 61) for i in range(70)], [60, 0, 33, 12, 12, 12, 4]]


@attrs.define(eq=False)
class Asked:
    """A submitted request with its events as they come; ``held``, the first one stops the engine until `go`."""

    held: bool = False
    going: threading.Event = attrs.field(factory=threading.Event)
    handle: Handle | None = None
    events: list = attrs.field(factory=list)
    threads: set = attrs.field(factory=set)
    arrived: queue.SimpleQueue = attrs.field(factory=queue.SimpleQueue)

    def take(self, event: object) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.append(event)
        self.arrived.put(event)
        if self.held:
            assert self.going.wait(20)

    def go(self) -> None:
        self.going.set()

    def first(self) -> object:
        return self.arrived.get(timeout=20)

    def end(self) -> FinishedEvent:
        while not isinstance(event := self.arrived.get(timeout=20), FinishedEvent):
            pass
        return event

    @property
    def ids(self) -> list[int]:
        return [event.id for event in self.events if isinstance(event, TokenEvent)]


class House:
    """An engine, its factory, and what is asked of it."""

    def __init__(self, factory: LocalFactory, queue: int = 100) -> None:
        self.factory = factory
        self.engine = Engine(factory, queue=queue)

    def ask(self, prompt: list[int], max_tokens: int = 8, eos=frozenset(), held=False, **sampling) -> Asked:
        request = Request(prompt=tuple(prompt), max_tokens=max_tokens, eos=eos, sampling=Sampling(**sampling))
        asked = Asked(held=held)
        asked.handle = self.engine.submit(request, asked.take)
        return asked

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is asked inside comes to the engine at one moment: another request, of one token, holds it so long."""
        gate = self.ask([1], 1, held=True)
        gate.first()
        try:
            yield
        finally:
            gate.go()
        assert gate.end().reason == "length"

    @property
    def run(self):
        return self.factory.runs[-1].run

    def close(self) -> None:
        self.factory.close()
        self.engine.stop(20)
        assert not self.engine._thread.is_alive()
        assert [local.run for local in self.factory.runs] == self.factory.released
        assert all(not runner._thread.is_alive() for local in self.factory.runs for runner in local.runners)


MODEL = TinyModel.make()


@pytest.fixture
def start():
    houses: list[House] = []

    def make(
        stages: int = 2, head: str = "coordinator", model: TinyModel = MODEL, most=None, queue=100, **numbers
    ) -> House:
        options = {key: numbers.pop(key) for key in ("wrap", "update") if key in numbers}
        layout = spans(model.config.layers, stages, head)
        factory = LocalFactory(lambda: [model.stage(span, **numbers) for span in layout], most, **options)
        houses.append(House(factory, queue))
        houses[-1].engine.start()
        return houses[-1]

    yield make
    for house in houses:
        house.close()


@pytest.mark.parametrize("head", ["coordinator", "last-stage"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_requests_at_once_get_what_they_get_alone(start, stages, head):
    house = start(stages, head)
    asked = [house.ask(prompt) for prompt in PROMPTS]
    for one, prompt in zip(asked, PROMPTS, strict=True):
        assert one.end() == FinishedEvent(reason="length", generated=8)
        assert one.ids == MODEL.greedy(prompt, 8)


@pytest.mark.parametrize("max_tokens", [1, 7, 32, 64])
def test_a_prompt_cut_into_chunks_gives_the_same(start, max_tokens):
    house = start(3, max_tokens=max_tokens)
    asked = [house.ask(PROMPTS[2]), house.ask(PROMPTS[3])]
    assert [one.end().reason for one in asked] == ["length"] * 2
    assert [one.ids for one in asked] == [MODEL.greedy(PROMPTS[2], 8), MODEL.greedy(PROMPTS[3], 8)]


def test_a_draw_depends_neither_on_mates_nor_on_where_the_head_is(start):
    sampling = {"temperature": 1.5, "top_p": 0.9, "seed": 17}
    alone = start(1, "last-stage").ask(PROMPTS[0], 20, **sampling)
    alone.end()
    house = start(2, "coordinator")
    mates = [house.ask(PROMPTS[i % 4], 15, temperature=1.0, seed=i) for i in range(5)]
    together, again = (house.ask(PROMPTS[0], 20, **sampling) for _ in range(2))
    assert {one.end().reason for one in (*mates, together, again)} == {"length"}
    assert together.ids == again.ids == alone.ids
    assert alone.ids != MODEL.greedy(PROMPTS[0], 20)


def test_unseeded_requests_differ_and_a_top_p_of_0_is_greedy(start):
    house = start()
    asked = [house.ask(PROMPTS[0], 25, temperature=2.0) for _ in range(2)]
    greedy = house.ask(PROMPTS[0], 6, temperature=2.0, top_p=0.0)
    assert {one.end().reason for one in (*asked, greedy)} == {"length"}
    assert asked[0].ids != asked[1].ids
    assert greedy.ids == MODEL.greedy(PROMPTS[0], 6)


def test_no_tokens_are_an_answer_without_a_run(start):
    house = start(most=0)
    asked = house.ask(PROMPTS[0], max_tokens=0)
    assert asked.events == [FinishedEvent(reason="length", generated=0)]


def test_one_token(start):
    asked = start().ask(PROMPTS[0], max_tokens=1)
    asked.end()
    assert asked.events == [TokenEvent(MODEL.greedy(PROMPTS[0], 1)[0]), FinishedEvent(reason="length", generated=1)]


def test_an_eos_ends_the_answer_and_is_not_part_of_it(start):
    answer = MODEL.greedy(PROMPTS[3], 8)
    eos = next(id for id in answer[2:] if id not in answer[:2])
    before = answer[: answer.index(eos)]
    asked = start().ask(PROMPTS[3], eos=frozenset({eos, 61}))
    assert asked.end() == FinishedEvent(reason="stop", generated=len(before) + 1)
    assert asked.ids == before


def test_events_come_in_order_on_the_engines_thread_and_end_once(start):
    house = start()
    asked = [house.ask(prompt, 5) for prompt in PROMPTS]
    for one in asked:
        one.end()
    house.ask(PROMPTS[0], 3).end()
    for one in asked:
        assert one.threads == {"engine"}
        assert [type(event) for event in one.events] == [TokenEvent] * 5 + [FinishedEvent]


def test_a_request_larger_than_the_cache_is_refused_with_the_numbers(start):
    house = start(pages=2)
    refused = house.ask(PROMPTS[2], 8)
    assert refused.end().message == ("prompt and answer need 96 tokens of cache, the run has 64; ask for fewer tokens")
    served = house.ask(PROMPTS[0], 8)
    assert served.end().reason == "length"


def test_more_requests_than_slots_and_pages_are_served_one_after_another(start):
    house = start(pages=3, sequences=2)
    asked = [house.ask(PROMPTS[i % 2], 40) for i in range(7)]
    assert {one.end().reason for one in asked} == {"length"}
    assert all(one.ids == MODEL.greedy(PROMPTS[i % 2], 40) for i, one in enumerate(asked[:2]))
    assert all(one.ids == asked[i % 2].ids for i, one in enumerate(asked))


def free(house: House) -> Callable[[], bool]:
    """Whether a request for the whole cache and every slot is served, which needs all pages and slots free."""
    asked = [house.ask(PROMPTS[1], 4 * 32) for _ in range(2)]
    return {one.end().reason for one in asked} == {"length"}


def test_cancelling_at_any_time_frees_pages_and_slots(start):
    house = start(pages=8, sequences=2, max_tokens=4)
    with house.at_once():
        running = [house.ask(PROMPTS[2], 50), house.ask(PROMPTS[1], 100, held=True)]
        waiting = [house.ask(PROMPTS[0], 30) for _ in range(3)]
    running[1].first()  # while the prompt of the other is under way
    waiting[1].handle.cancel()
    for one in (*running, waiting[0], waiting[2]):
        one.handle.cancel()
        one.handle.cancel()
    running[1].go()
    assert {one.end().reason for one in (*running, *waiting)} == {"cancelled"}
    assert (running[0].ids, len(running[1].ids)) == ([], 1)
    assert free(house)
    assert len(house.factory.runs) == 1


def test_500_cancels_in_a_row(start):
    """DIST-10; whatever each was doing when it was cancelled."""
    house = start(1, "last-stage", pages=8, sequences=2, max_tokens=8)
    survivor = house.ask(PROMPTS[1], 4 * 32)
    for i in range(500):
        asked = house.ask(PROMPTS[0], 30, held=i % 50 == 0)
        if asked.held:
            asked.first()
        asked.handle.cancel()
        asked.go()
        assert asked.end().reason == "cancelled"
    assert survivor.end().reason == "length"
    assert survivor.ids == MODEL.greedy(PROMPTS[1], 4 * 32)
    assert free(house)


def test_cancelled_while_its_step_lies_between_two_stages(start):
    """DIST-10: what comes late is nobody's, no stage keeps anything of it, and its batch mate goes on."""
    held, going = threading.Event(), threading.Event()
    house = start(2, "last-stage")
    mate, asked = house.ask(PROMPTS[0], 30), house.ask(PROMPTS[1], 400)
    asked.first()
    stage = house.factory.runs[0].runners[1].stage
    execute = stage.execute

    def late(header, payload):
        if not held.is_set():
            held.set()
            assert going.wait(20)
        return execute(header, payload)

    stage.execute = late
    assert held.wait(20)
    asked.handle.cancel()
    asked.handle.cancel()
    going.set()
    end = asked.end()
    assert (end.reason, end.generated) == ("cancelled", len(asked.ids))
    assert mate.end().reason == "length"
    assert mate.ids == MODEL.greedy(PROMPTS[0], 30)
    states = [runner.stage.state for runner in house.factory.runs[0].runners]
    assert until(lambda: house.run.in_flight == 0 and not any(state._sequences for state in states))
    assert len(house.factory.runs) == 1


def test_in_groups_everybody_gets_what_it_gets_in_one(start, monkeypatch):
    """Also those that give up their pages while a token of theirs is under way."""
    monkeypatch.setattr(Groups, "count", lambda groups, streams: max(1, min(3, streams)))
    house = start(3, "last-stage", pages=15, sequences=4)
    drawn = {"temperature": 1.2, "seed": 5, "repetition_penalty": 1.3}
    with house.at_once():
        asked = [house.ask([5 + i], 200) for i in range(3)] + [house.ask([3, 4], 200, **drawn)]
    assert {one.end().reason for one in asked} == {"length"}
    assert house.engine._scheduler._steps._numbers > 5, "nobody gave up its pages"
    monkeypatch.undo()
    assert [one.ids[:100] for one in asked[:3]] == [MODEL.greedy([5 + i], 100) for i in range(3)]
    alone = start(1, "last-stage").ask([3, 4], 200, **drawn)
    assert alone.end().reason == "length"
    assert asked[3].ids == alone.ids


def test_cancelling_before_there_is_a_run_ends_at_once(start):
    house = start(most=0)
    asked = house.ask(PROMPTS[0])
    asked.handle.cancel()
    asked.handle.cancel()
    assert asked.events == [FinishedEvent(reason="cancelled", generated=0)]


def test_cancelling_after_the_end_does_nothing(start):
    asked = start().ask(PROMPTS[0], 2)
    asked.end()
    asked.handle.cancel()
    assert len(asked.events) == 3


def test_a_run_that_faults_fails_what_it_served_and_the_next_serves_what_waited(start):
    house = start(sequences=1)
    running, waiting = house.ask(PROMPTS[0], 400, held=True), house.ask(PROMPTS[1], 6)
    running.first()
    house.run.fault(NodeError("node-1 was lost"))
    running.go()
    end = running.end()
    assert (end.reason, end.message) == ("error", "node-1 was lost")
    assert end.generated == len(running.ids) == 1
    assert waiting.end().reason == "length"
    assert waiting.ids == MODEL.greedy(PROMPTS[1], 6)
    assert len(house.factory.runs) == 2
    assert house.factory.runs[0].run.machine.state is RunState.FAULTED
    assert [one.end().reason for one in [house.ask(PROMPTS[0], 2)]] == ["length"]


def test_a_fault_of_a_stage_reaches_the_request_with_its_reason(start):
    house = start(2, "last-stage", max_tokens=64)
    asked = house.ask([5, 61, 7], 4)
    assert asked.end().message == "token 61 is outside the model's vocabulary, 0..60"
    assert isinstance(house.factory.runs[0].run.failure, StateError)
    assert house.ask(PROMPTS[0], 2).end().reason == "length"


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()


def test_the_fault_of_an_idle_run_is_noticed(start):
    house = start()
    assert house.engine.wait_ready(20)
    house.run.fault(NodeError("node-1 was lost"))
    assert until(lambda: len(house.factory.runs) == 2 and house.engine.wait_ready(0))
    assert house.ask(PROMPTS[0], 2).end().reason == "length"


def test_requests_wait_for_a_run(start):
    gate = threading.Event()

    class Late(LocalFactory):
        def create(self):
            gate.wait(20)
            return super().create()

    house = House(Late(lambda: [MODEL.whole()]))
    asked = house.ask(PROMPTS[0], 3)
    house.engine.start()
    assert not house.engine.wait_ready(0.01)
    gate.set()
    assert asked.end().reason == "length"
    house.close()


def test_stopping_while_a_run_is_made(start):
    house = start(most=0)
    asked = house.ask(PROMPTS[0])
    house.close()
    assert asked.end() == FinishedEvent(reason="error", generated=0, message="the engine has stopped")
    after = house.ask(PROMPTS[0])
    assert after.events == [FinishedEvent(reason="error", generated=0, message="the engine has stopped")]


def test_stopping_while_nothing_is_asked(start):
    house = start()
    assert house.engine.wait_ready(20)
    house.close()
    assert house.run.machine.state is RunState.COMPLETED
    assert house.run.failure is None


def test_stopping_while_tokens_come(start):
    house = start(sequences=1)
    running, waiting = house.ask(PROMPTS[0], 400, held=True), house.ask(PROMPTS[1], 6)
    running.first()
    threading.Timer(0.05, running.go).start()
    house.close()
    assert (running.end().reason, waiting.end().reason) == ("error", "error")
    assert running.events[-1].message == waiting.events[-1].message == "the engine has stopped"
    assert house.run.failure is None
    house.engine.stop(20)


class Counted(Edge):
    """Counts what is under way between two edges."""

    under_way = 0
    most = 0

    def __init__(self, inner: Edge) -> None:
        self.inner = inner

    def send(self, header, tensors):
        Counted.under_way += 1
        Counted.most = max(Counted.most, Counted.under_way)
        self.inner.send(header, tensors)

    def recv(self, place):
        header = self.inner.recv(place)
        Counted.under_way -= 1
        return header

    def abort(self):
        self.inner.abort()

    def close(self):
        self.inner.close()


@pytest.mark.parametrize("stages", [1, 3])
def test_as_many_steps_are_under_way_as_the_depth_and_no_more(start, stages):
    """Chunks of a prompt fill the pipeline: one step a stage, and one on its way."""
    Counted.under_way = Counted.most = 0
    house = start(stages, "last-stage", max_tokens=1, wrap=Counted)
    asked = house.ask(PROMPTS[2], 3)
    assert asked.end().reason == "length"
    assert house.run.plan.depth == stages + 1
    assert Counted.most == stages + 1
    assert until(lambda: Counted.under_way == 0)


def test_parameters_come_before_the_step_that_needs_them_is_sampled(start):
    """Updates travel on another path; here each comes late."""

    def late(apply):
        def update(change):
            threading.Timer(0.02, apply, [change]).start()

        return update

    house = start(1, "last-stage", update=late)
    asked = house.ask(PROMPTS[0], 4, temperature=1.5, seed=17)
    asked.end()
    prompt = start(1, "last-stage").ask(PROMPTS[0], 4, temperature=1.5, seed=17)
    prompt.end()
    assert asked.ids == prompt.ids


class NoRun:
    """A factory without a run."""

    def create(self):
        raise NodeError("no node has room")

    def release(self, run):
        raise NotImplementedError


def test_an_engine_without_a_run_says_why():
    engine = Engine(NoRun())
    asked = Asked()
    request = Request(prompt=(1,), max_tokens=3, eos=frozenset())
    engine.submit(request, asked.take)
    engine.start()
    assert asked.end().message == "no node has room"
    engine.stop(20)
    assert isinstance(engine.failure, NodeError)
    late = Asked()
    engine.submit(request, late.take)
    assert late.events == [FinishedEvent(reason="error", generated=0, message="no node has room")]


def test_a_full_queue_says_when_to_come_again(start):
    house = start(sequences=1, queue=2)
    running = house.ask(PROMPTS[0], 400, held=True)
    running.first()
    waiting = [house.ask(PROMPTS[0], 1) for _ in range(2)]
    with pytest.raises(Busy) as refused:
        house.ask(PROMPTS[0], 1)
    assert str(refused.value) == "2 requests wait already, and no more may; try again later"
    assert 1 <= refused.value.retry_after <= 60
    assert house.ask(PROMPTS[0], max_tokens=0).end().reason == "length"
    waiting[0].handle.cancel()
    assert house.ask(PROMPTS[0], 1).handle is not None
    running.handle.cancel()
    running.go()
    assert waiting[1].end().reason == "length"


def test_a_queue_is_bounded_before_there_is_a_run(start):
    house = start(most=0, queue=1)
    house.ask(PROMPTS[0])
    with pytest.raises(Busy):
        house.ask(PROMPTS[0])


@pytest.mark.parametrize("head", ["coordinator", "last-stage"])
def test_requests_that_give_up_their_pages_go_on_as_if_nothing_happened(start, head):
    """Three that may need eight of ten pages each; the draws and penalties of one need to know its own tokens."""
    sampling = {"temperature": 1.2, "seed": 5, "repetition_penalty": 1.3, "presence_penalty": 0.5}
    alone = start(2, head).ask([3, 4], 240, **sampling)
    assert alone.end().reason == "length"
    house = start(2, head, pages=10, sequences=3)
    with house.at_once():
        first, drawn, last = house.ask([5], 240), house.ask([3, 4], 240, **sampling), house.ask([6], 200)
    assert {one.end().reason for one in (first, drawn, last)} == {"length"}
    assert house.engine._scheduler._steps._numbers > 4
    assert drawn.ids == alone.ids
    assert first.ids[:100] == MODEL.greedy([5], 100)
    assert last.ids[:100] == MODEL.greedy([6], 100)


@pytest.mark.parametrize("stages", [1, 3])
def test_pages_of_another_request_give_the_same_answer_as_ones_own(start, stages):
    house = start(stages, max_tokens=512)
    begin = [int(i * 11 % 61) for i in range(100)]
    assert house.ask([*begin, 7], 5).end().reason == "length"
    for rest in ([7], [8], [9, 10, 11]):
        asked = house.ask([*begin, *rest], 5)
        asked.end()
        assert asked.ids == MODEL.greedy([*begin, *rest], 5)


def test_an_engine_at_rest_holds_nothing_on_any_stage(start):
    house = start(3)
    asked = house.ask(PROMPTS[0], 400)
    asked.first()
    asked.handle.cancel()
    assert asked.end().reason == "cancelled"
    states = [runner.stage.state for runner in house.factory.runs[0].runners]
    assert until(lambda: house.run.in_flight == 0 and not any(state._sequences for state in states))


def test_a_teardown_that_fails_still_ends_every_request():
    class Stuck(LocalFactory):
        def release(self, run):
            super().release(run)
            raise TrueClusterError("a stage's thread didn't end")

    house = House(Stuck(lambda: [MODEL.whole(sequences=1)]))
    house.engine.start()
    running, waiting = house.ask(PROMPTS[0], 400, held=True), house.ask(PROMPTS[1], 6)
    running.first()
    house.run.fault(NodeError("node-1 was lost"))
    running.go()
    assert running.end().message == "node-1 was lost"
    assert waiting.end().message == "a stage's thread didn't end"
    house.close()
