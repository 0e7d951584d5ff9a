"""The state machines against the moves that the design names."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from truecluster._pipeline.machines import REQUEST, RUN, STAGE, Machine, RequestState, RunState, StageState

WALKS = {
    "a run": (RUN, "PLANNING PROVISIONING WAITING_READY RUNNING COMPLETED TEARING_DOWN DONE"),
    "a run that faults": (RUN, "PLANNING PROVISIONING WAITING_READY RUNNING FAULTED TEARING_DOWN DONE"),
    "a run without a plan": (RUN, "PLANNING FAULTED TEARING_DOWN DONE"),
    "a run that can't load": (RUN, "PLANNING PROVISIONING WAITING_READY FAULTED TEARING_DOWN DONE"),
    "a stage": (STAGE, "UNPROVISIONED PREPARING READY EXECUTING READY EXECUTING READY STOPPING STOPPED"),
    "a stage that faults": (STAGE, "UNPROVISIONED PREPARING READY EXECUTING FAULTED STOPPING STOPPED"),
    "a stage that can't load": (STAGE, "UNPROVISIONED PREPARING FAULTED STOPPING STOPPED"),
    "a request": (REQUEST, "QUEUED PREFILL DECODE FINISHED"),
    "a request of one token": (REQUEST, "QUEUED PREFILL FINISHED"),
    "a request that never began": (REQUEST, "QUEUED FINISHED"),
}
STATES = {id(RUN): RunState, id(STAGE): StageState, id(REQUEST): RequestState}


def states(table, walk: str):
    return [STATES[id(table)][name] for name in walk.split()]


@pytest.mark.parametrize("walk", WALKS)
def test_a_legal_walk_is_walked(walk):
    table, names = WALKS[walk]
    start, *rest = states(table, names)
    machine = Machine(table, start)
    for state in rest:
        machine.to(state)
    assert machine.state is rest[-1]


@pytest.mark.parametrize("table", [RUN, STAGE, REQUEST])
def test_every_other_move_is_our_own_bug(table):
    """Each pair of states that no walk above takes in this order is refused, save the shortcuts to an end."""
    walked = {pair for other, names in WALKS.values() if other is table for pair in pairwise(states(other, names))}
    ends = {
        (RunState.PROVISIONING, RunState.FAULTED),
        (StageState.PREPARING, StageState.STOPPING),
        (StageState.READY, StageState.FAULTED),
        (StageState.EXECUTING, StageState.STOPPING),
        (RequestState.PREFILL, RequestState.FINISHED),
    }
    for start in table:
        for to in table:
            machine = Machine(table, start)
            if (start, to) in walked | ends:
                assert machine.try_to(to)
                continue
            with pytest.raises(AssertionError, match=f"{start.value} → {to.value} is not a legal move"):
                machine.to(to)
            assert machine.state is start


def test_a_run_has_one_outcome():
    machine = Machine(RUN, RunState.RUNNING)
    assert machine.try_to(RunState.COMPLETED)
    assert not machine.try_to(RunState.FAULTED)
    assert not machine.try_to(RunState.COMPLETED)


def test_of_many_threads_one_wins():
    for _ in range(20):
        machine, barrier, won = Machine(RUN, RunState.RUNNING), threading.Barrier(6), []

        def end(machine=machine, barrier=barrier, won=won) -> None:
            barrier.wait(10)
            won.append(machine.try_to(RunState.FAULTED))

        threads = [threading.Thread(target=end) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert sorted(won) == [False] * 5 + [True]
