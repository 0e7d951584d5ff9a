"""The engine's end of a run: credit, order, and exactly one outcome."""

from __future__ import annotations

import threading

import attrs
import pytest
import torch
from local_runs import spans, start_run
from tiny_models import FP32, TinyModel

from truecluster._pipeline.answers import Answer
from truecluster._pipeline.local import local_edge
from truecluster._pipeline.machines import RUN, Machine, RunState
from truecluster._pipeline.run import Capacity, Run, Step
from truecluster._plan import build_plan
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader, encode
from truecluster.api import (
    COORDINATOR,
    EdgeBroken,
    EdgeClosed,
    NodeError,
    Placement,
    Span,
    StateError,
    TrueClusterError,
)

PROMPT = Step(rows=(Row(1, 0, 3, 1),), ids=[5, 6, 7], opened=(Opened(1),), pages=(Page(1, 0),), prefill=True)


@pytest.fixture
def alone():
    """A run whose stages the test plays: the run, what arrives at the first stage, and the last stage's answers."""
    placements = [Placement(COORDINATOR, Span(0, 3, embed=True, head=True))]
    plan = build_plan(placements, run=4, model="m", transport="local", dtypes={COORDINATOR: FP32})
    (to_first, first), (last, from_last) = local_edge(), local_edge()
    capacity = Capacity(pages=4, sequences=2, max_tokens=8, context=64, cached_starts=True)
    run = Run(plan, capacity, to_first, from_last, lambda update: None, Machine(RUN, RunState.RUNNING))
    yield run, first, last
    run.complete()


def token(step: int = 0, ids=(3,), **changes) -> tuple[bytes, list[torch.Tensor]]:
    header = StepHeader(kind=Kind.TOKEN, run=4, step=step, count=len(ids))
    return encode(attrs.evolve(header, **changes)), [torch.tensor(ids, dtype=torch.int32)]


@pytest.mark.parametrize("head", ["coordinator", "last-stage"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_run_of_any_layout_gives_the_same_tokens(stages, head):
    model = TinyModel.make()
    local = start_run([model.stage(span) for span in spans(3, stages, head)])
    ids, expected = [5, 6, 7], model.greedy([5, 6, 7], 6)
    local.run.send(PROMPT)
    for _ in range(5):
        ids += local.run.receive().ids
        local.run.send(Step(rows=(Row(1, len(ids) - 1, 1, 1),), ids=ids[-1:]))
    ids += local.run.receive().ids
    local.stop()
    assert ids[3:] == expected
    assert local.run.failure is None
    assert local.run.machine.state is RunState.COMPLETED


def test_no_step_goes_without_credit(alone):
    run, *_ = alone
    assert run.plan.depth == 2
    run.send(PROMPT)
    run.send(PROMPT)
    assert run.in_flight == 2
    with pytest.raises(AssertionError, match="without credit"):
        run.send(PROMPT)


def test_an_answer_gives_credit_back(alone):
    run, _, last = alone
    for step in range(5):
        run.send(PROMPT)
        last.send(*token(step, [step]))
        assert run.receive() == Answer(ids=[step])
        assert run.in_flight == 0


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (token(step=1), "answer 1 of run 4 came, 0 is next"),
        (token(run=3), "answer 0 of run 3 came"),
        (token(ids=[1, 2]), "an answer of 2 tokens came, 1 were asked for"),
        (token(ids=[]), "an answer of 0 tokens came, 1 were asked for"),
        ((b"?", []), "a step header of 1 bytes"),
    ],
)
def test_an_answer_that_is_not_the_next_ends_the_run(alone, answer, word):
    run, first, last = alone
    run.send(PROMPT)
    last.send(*answer)
    with pytest.raises(EdgeBroken, match=word):
        run.receive()
    assert run.machine.state is RunState.FAULTED
    with pytest.raises(EdgeClosed):
        first.recv(lambda header: [])


def test_a_fault_wakes_the_engine_with_its_reason(alone):
    run, *_ = alone
    run.send(PROMPT)
    threading.Timer(0.02, run.fault, [NodeError("node-1 is gone")]).start()
    with pytest.raises(NodeError, match="node-1 is gone"):
        run.receive()
    with pytest.raises(NodeError, match="node-1 is gone"):
        run.send(PROMPT)
    assert str(run.failure) == "node-1 is gone"


def test_the_first_reason_stays_but_a_nodes_own_word_replaces_a_broken_edge(alone):
    run, *_ = alone
    run.fault(EdgeBroken("the connection was lost"))
    assert str(run.fault(StateError("sequence 3 is not open"))) == "sequence 3 is not open"
    run.fault(NodeError("later"))
    run.fault(EdgeClosed("later still"))
    assert str(run.failure) == "sequence 3 is not open"


def test_of_two_outcomes_the_first_counts(alone):
    run, *_ = alone
    run.complete()
    assert isinstance(run.fault(NodeError("too late")), TrueClusterError)
    assert run.failure is None
    assert run.machine.state is RunState.COMPLETED
    assert run.ended


def test_whoever_wants_to_know_the_end_is_called(alone):
    run, *_ = alone
    called = threading.Event()
    run.when_ended(called.set)
    assert not called.is_set()
    run.fault(NodeError("gone"))
    assert called.is_set()
    again = threading.Event()
    run.when_ended(again.set)
    assert again.is_set()


def test_faults_from_many_threads_agree_on_one_reason(alone):
    run, *_ = alone
    barrier, answers = threading.Barrier(6), []

    def fault(number: int) -> None:
        barrier.wait(10)
        answers.append(str(run.fault(NodeError(str(number)))))

    threads = [threading.Thread(target=fault, args=[i]) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert set(answers) == {str(run.failure)}
