"""The state machines of a run, a stage and a request, as tables: state → the states that may follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)


class State(Enum):
    """Hashed by identity: Enum's own hash is a Python function, which a stage would call several times a step."""

    __hash__ = object.__hash__


class RunState(State):
    PLANNING = "planning"
    PROVISIONING = "provisioning"
    WAITING_READY = "waiting-ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAULTED = "faulted"
    TEARING_DOWN = "tearing-down"
    DONE = "done"


class StageState(State):
    UNPROVISIONED = "unprovisioned"
    PREPARING = "preparing"
    READY = "ready"
    EXECUTING = "executing"
    FAULTED = "faulted"
    STOPPING = "stopping"
    STOPPED = "stopped"


class RequestState(State):
    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


RUN: Mapping[RunState, frozenset[RunState]] = {
    RunState.PLANNING: frozenset({RunState.PROVISIONING, RunState.FAULTED}),
    RunState.PROVISIONING: frozenset({RunState.WAITING_READY, RunState.FAULTED}),
    RunState.WAITING_READY: frozenset({RunState.RUNNING, RunState.FAULTED}),
    RunState.RUNNING: frozenset({RunState.COMPLETED, RunState.FAULTED}),
    RunState.COMPLETED: frozenset({RunState.TEARING_DOWN}),
    RunState.FAULTED: frozenset({RunState.TEARING_DOWN}),
    RunState.TEARING_DOWN: frozenset({RunState.DONE}),
    RunState.DONE: frozenset(),
}

STAGE: Mapping[StageState, frozenset[StageState]] = {
    StageState.UNPROVISIONED: frozenset({StageState.PREPARING}),
    StageState.PREPARING: frozenset({StageState.READY, StageState.FAULTED, StageState.STOPPING}),
    StageState.READY: frozenset({StageState.EXECUTING, StageState.FAULTED, StageState.STOPPING}),
    StageState.EXECUTING: frozenset({StageState.READY, StageState.FAULTED, StageState.STOPPING}),
    StageState.FAULTED: frozenset({StageState.STOPPING}),
    StageState.STOPPING: frozenset({StageState.STOPPED}),
    StageState.STOPPED: frozenset(),
}

REQUEST: Mapping[RequestState, frozenset[RequestState]] = {
    RequestState.QUEUED: frozenset({RequestState.PREFILL, RequestState.FINISHED}),
    RequestState.PREFILL: frozenset({RequestState.DECODE, RequestState.FINISHED}),
    RequestState.DECODE: frozenset({RequestState.FINISHED}),
    RequestState.FINISHED: frozenset(),
}


class Machine(Generic[S]):
    """Where one run, stage or request stands. Safe to use from several threads.

    ``on_move`` learns of every move in order; it must return at once.
    """

    def __init__(self, table: Mapping[S, frozenset[S]], start: S, on_move: Callable[[S], object] | None = None) -> None:
        self._table = table
        self._state = start
        self._on_move = on_move
        self._lock = threading.Lock()

    @property
    def state(self) -> S:
        return self._state

    def to(self, state: S) -> None:
        """Move. A move that the table doesn't have is our own bug."""
        moved = self.try_to(state)
        assert moved, f"{self._state.value} → {state.value} is not a legal move"

    def try_to(self, state: S) -> bool:
        """Move if the table has it; of several threads that try the same terminal move, one wins."""
        with self._lock:
            if state not in self._table[self._state]:
                return False
            self._state = state
            if self._on_move is not None:
                self._on_move(state)
            return True
