"""A stage's thread: what it refuses, what it reports and how it ends."""

from __future__ import annotations

import gc
import sys
import threading
import time

import attrs
import pytest
import torch
from tiny_models import TinyModel

from truecluster._pipeline.local import local_edge
from truecluster._pipeline.machines import StageState
from truecluster._pipeline.runner import StageRunner
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Kind, Opened, Page, Row, StepHeader, StepLimits, decode, encode
from truecluster.api import DType, EdgeBroken, EdgeClosed, EdgeEnded, EdgeTimeout, NodeError, Span, StateError

RUN = 7


class Driven:
    """A runner between two edges that the test holds."""

    def __init__(self, stage, start: bool = True) -> None:
        self.send, inbound = local_edge()
        outbound, self.recv = local_edge()
        self.faults: list[Exception] = []
        self.faulted = threading.Event()
        self.runner = StageRunner(stage, RUN, inbound, outbound, self._fault)
        if start:
            self.runner.start()

    def _fault(self, error: Exception) -> None:
        self.faults.append(error)
        self.faulted.set()

    def step(self, header: StepHeader, payload: torch.Tensor) -> None:
        self.send.send(encode(header), [payload])

    def answer(self) -> tuple[StepHeader, torch.Tensor]:
        found: list = []

        def place(data: bytes) -> list[torch.Tensor]:
            header = decode(data, StepLimits())
            rows = torch.empty(header.count, header.width) if header.width else torch.empty(header.count).int()
            found.append((header, rows))
            return [rows]

        self.recv.recv(place)
        return found[0]

    def fault(self) -> Exception:
        assert self.faulted.wait(10), "no fault was reported"
        return self.faults[0]


@pytest.fixture
def drive():
    driven: list[Driven] = []

    def start(stage, **more) -> Driven:
        driven.append(Driven(stage, **more))
        return driven[-1]

    yield start
    for each in driven:
        assert each.runner.stop(10) or each.runner.machine.state is StageState.STOPPED


@pytest.fixture
def model() -> TinyModel:
    return TinyModel.make()


MIDDLE, WHOLE = Span(1, 2), Span(0, 3, embed=True, head=True)
IDS = torch.tensor([5, 6, 7], dtype=torch.int32)


def first(**changes) -> StepHeader:
    """The first step of a run: a prompt of three tokens, in ids."""
    header = StepHeader(
        kind=Kind.RUN_PREFILL,
        run=RUN,
        step=0,
        count=3,
        rows=(Row(1, 0, 3, 1),),
        opened=(Opened(1),),
        pages=(Page(1, 0),),
    )
    return attrs.evolve(header, **changes)


def hidden(**changes) -> StepHeader:
    """The same, in hidden rows."""
    return first(**{"width": 32, "dtype": DType.FP32, **changes})


def test_a_step_is_answered_once(drive, model):
    driven = drive(model.stage(WHOLE))
    driven.step(first(), IDS)
    header, ids = driven.answer()
    assert (header.kind, header.run, header.step, header.count) == (Kind.TOKEN, RUN, 0, 1)
    assert ids.tolist() == model.greedy([5, 6, 7], 1)
    deadline = time.monotonic() + 10
    while driven.runner.progress.finished_steps != 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert driven.runner.progress.finished_steps == 1
    assert driven.runner.progress.busy_s is None
    assert driven.runner.progress.worked_s > 0
    # the struct of 44 bytes, five numbers of a row, two of each of the others, and one id
    assert driven.runner.progress.sent_bytes == 44 + 4 * (5 + 2 + 2) + 4
    assert not driven.faults


def test_around_its_blocks_a_step_is_few_python_calls(drive, model):
    """A call that takes 0.1 µs in a loop takes 3 once a model's weights have gone through the caches."""
    stage = model.stage(MIDDLE)
    stage._blocks = [(lambda hidden, batch, state: hidden, state) for _, state in stage._blocks]
    runner, send = (driven := drive(stage, start=False)).runner, driven.step
    calls: list[str] = []

    def count(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    for step in range(3):
        decoding = hidden(kind=Kind.RUN_DECODE, step=step, count=1, rows=(Row(1, 2 + step, 1, 1),), opened=(), pages=())
        send(decoding if step else hidden(rows=(Row(1, 0, 3, 1),)), torch.zeros(1 if step else 3, 32))
        calls.clear()
        gc.disable()  # what it calls of others' garbage would be counted
        sys.setprofile(count)
        try:
            runner._step()
        finally:
            sys.setprofile(None)
            gc.enable()
    assert 20 < len(calls) <= 40, calls


WRONG = {
    "another run": (WHOLE, first(run=8), r"a step of run 8 came to a stage of run 7"),
    "a stale run": (WHOLE, first(run=6), r"a step of run 6 came to a stage of run 7"),
    "a step too early": (WHOLE, first(step=1), "step 1 came, step 0 is next"),
    "hidden rows for ids": (WHOLE, hidden(), r"RUN_PREFILL of width 32 in fp32 came to stage .*RUN_PREFILL of width 0"),
    "ids for hidden rows": (MIDDLE, first(), r"of width 0 in int32 came to stage blocks 1-1, which takes .* width 32"),
    "another width": (MIDDLE, hidden(width=31), r"of width 31 in fp32"),
    "a narrower dtype": (MIDDLE, hidden(dtype=DType.FP16), r"of width 32 in fp16 .* in fp32"),
    "rows that were picked": (MIDDLE, hidden(kind=Kind.HIDDEN_STATE, count=1), "a HIDDEN_STATE of width 32"),
    "an answer": (WHOLE, first(kind=Kind.TOKEN, count=1), "a TOKEN of width 0"),
    "beyond the context": (
        MIDDLE,
        hidden(rows=(Row(1, 510, 3, 1),)),
        "reaches position 513, at most 512 are allowed",
    ),
    "more tokens than agreed": (MIDDLE, hidden(count=65, rows=(Row(1, 0, 65, 1),)), "at most 64"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_step_that_breaks_the_rules_is_reported_once_and_not_computed(drive, model, wrong):
    span, header, word = WRONG[wrong]
    driven = drive(model.stage(span))
    payload = torch.zeros(header.count, header.width) if header.width else torch.zeros(header.count).int()
    driven.step(header, payload)
    fault = driven.fault()
    assert isinstance(fault, EdgeBroken)
    with pytest.raises(EdgeBroken, match=word):
        raise fault
    assert driven.runner.machine.state is StageState.FAULTED
    assert driven.runner.progress.finished_steps == 0
    assert driven.runner.stop(10)
    assert len(driven.faults) == 1


@pytest.mark.parametrize("data", [b"", b"\xff" * 48, encode(first())[:-1], encode(first()) + b"\0\0\0\0"])
def test_a_header_that_is_none_is_reported(drive, model, data):
    driven = drive(model.stage(WHOLE))
    driven.send.send(data, [IDS])
    assert isinstance(driven.fault(), EdgeBroken)


def test_a_step_repeated_is_out_of_order(drive, model):
    driven = drive(model.stage(WHOLE))
    driven.step(first(), IDS)
    driven.answer()
    driven.step(first(), IDS)
    with pytest.raises(EdgeBroken, match="step 0 came, step 1 is next"):
        raise driven.fault()


STATES = {
    "a sequence that isn't open": (first(opened=()), "sequence 1 is not open"),
    "a page that isn't there": (first(pages=(Page(1, 16),)), r"page 16 is outside 0\.\.15"),
    "no page": (first(pages=()), "don't fit its 0 pages"),
    "a gap": (first(rows=(Row(1, 2, 3, 1),)), "leaves a gap"),
    "a release of nothing": (first(released=(9,)), "sequence 9 is not open"),
}


@pytest.mark.parametrize("wrong", STATES)
def test_a_step_that_contradicts_the_state_is_reported(drive, model, wrong):
    header, word = STATES[wrong]
    driven = drive(model.stage(WHOLE))
    driven.step(header, IDS)
    with pytest.raises(StateError, match=word):
        raise driven.fault()


@pytest.mark.parametrize("id", [61, -1, 1 << 30])
def test_a_token_outside_the_vocabulary_is_reported(drive, model, id):
    driven = drive(model.stage(WHOLE))
    driven.step(first(), torch.tensor([5, id, 7], dtype=torch.int32))
    with pytest.raises(StateError, match=rf"token {id} is outside the model's vocabulary, 0\.\.60"):
        raise driven.fault()


def test_an_error_of_our_own_is_a_fault_that_names_the_stage(drive, model, caplog):
    stage = model.stage(WHOLE)
    stage.execute = lambda header, payload: 1 / 0
    driven = drive(stage)
    driven.step(first(), IDS)
    with pytest.raises(
        NodeError, match=r"stage embed \+ blocks 0-2 \+ head failed: ZeroDivisionError: division by zero"
    ):
        raise driven.fault()
    assert "ZeroDivisionError" in caplog.text


def test_an_edge_that_ends_by_itself_is_a_fault(drive, model):
    driven = drive(model.stage(WHOLE))
    driven.send.close()
    assert isinstance(driven.fault(), EdgeEnded)
    driven = drive(model.stage(WHOLE))
    driven.recv.abort()  # before there is an answer that could still be taken
    driven.step(first(), IDS)
    assert isinstance(driven.fault(), EdgeClosed)


def test_stopping_joins_the_thread_and_is_no_fault(drive, model):
    driven = drive(model.stage(WHOLE))
    driven.step(first(), IDS)
    driven.answer()
    assert driven.runner.stop(10)
    assert driven.runner.machine.state is StageState.STOPPED
    assert not driven.faults
    with pytest.raises(EdgeClosed):
        driven.send.send(b"", [])


def test_stopping_before_the_start_has_nothing_to_wait_for(model):
    driven = Driven(model.stage(WHOLE), start=False)
    assert driven.runner.stop(10)
    assert driven.runner.machine.state is StageState.STOPPED


def test_stopping_a_stage_that_computes_says_whether_it_ended(model):
    stage, begun, go = model.stage(WHOLE), threading.Event(), threading.Event()

    def execute(header, payload):
        begun.set()
        go.wait(10)
        return [torch.zeros(1, dtype=torch.int32)]

    stage.execute = execute
    driven = Driven(stage)
    driven.step(first(), IDS)
    assert begun.wait(10)
    assert driven.runner.progress.busy_s is not None
    assert not driven.runner.stop(0.01)
    go.set()
    assert driven.runner.stop(10)
    assert not driven.faults


def two(number: int = 0, last: int = 7) -> tuple[StepHeader, torch.Tensor]:
    """Two prompts in one step."""
    header = first(
        count=6,
        rows=(Row(1, 0, 3, 1, number), Row(2, 0, 3, 1)),
        opened=(Opened(1), Opened(2)),
        pages=(Page(1, 0), Page(2, 1)),
    )
    return header, torch.tensor([5, 6, 7, 5, 6, last], dtype=torch.int32)


def test_logits_that_are_not_finite_are_never_sampled_and_cost_only_their_own_row(drive, model):
    """SAMP-04: an infinite weight reaches whoever uses it."""
    model.weights["embed.tokens"][9] = float("inf")
    driven = drive(model.stage(WHOLE))
    driven.step(*two(last=9))
    _, ids = driven.answer()
    assert ids.tolist() == [*model.greedy([5, 6, 7], 1), NOT_A_TOKEN]


def test_a_head_waits_for_the_parameters_that_a_row_names(drive, model):
    stage = model.stage(WHOLE)
    driven = drive(stage)
    driven.step(*two(number=1))
    time.sleep(0.05)
    assert driven.runner.progress.finished_steps == 0
    stage.samples.apply(SampleUpdate(number=1, sequence=1, params=SampleParams(temperature=50.0, seed=4)))
    _, ids = driven.answer()
    greedy = model.greedy([5, 6, 7], 1)[0]
    assert ids[1] == greedy
    assert ids[0] != greedy


def test_parameters_that_do_not_come_are_a_fault(drive, model):
    driven = drive(model.stage(WHOLE, step_timeout=0.05))
    driven.step(*two(number=3))
    with pytest.raises(EdgeTimeout, match=r"sampling update 3 didn't arrive within 0\.05 s"):
        raise driven.fault()


def test_every_wanted_row_gives_a_token_and_a_chunk_gives_none(drive, model):
    driven = drive(model.stage(WHOLE))
    driven.step(first(rows=(Row(1, 0, 3, 0),)), IDS)
    header, ids = driven.answer()
    assert (header.count, ids.tolist()) == (0, [])
    more = first(step=1, rows=(Row(1, 3, 3, 3),), opened=(), pages=())
    driven.step(more, torch.tensor([8, 9, 10], dtype=torch.int32))
    _, ids = driven.answer()
    assert ids.tolist() == model.logits([5, 6, 7, 8, 9, 10])[3:].argmax(-1).tolist()


def test_a_released_sequence_takes_its_parameters_with_it(drive, model):
    stage = model.stage(WHOLE, sequences=1)
    driven = drive(stage)
    stage.samples.apply(SampleUpdate(number=1, sequence=1, params=SampleParams(temperature=50.0)))
    driven.step(first(rows=(Row(1, 0, 3, 1, 1),)), IDS)
    driven.answer()
    again = first(step=1, released=(1,), opened=(Opened(2),), pages=(Page(2, 0),), rows=(Row(2, 0, 3, 1),))
    driven.step(again, IDS)
    _, ids = driven.answer()
    assert ids.tolist() == model.greedy([5, 6, 7], 1)
    assert stage.samples.of(1, 0).params == SampleParams()
