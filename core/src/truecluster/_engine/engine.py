"""The engine: takes requests from any thread, drives runs in its own, and outlives them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from truecluster._pipeline.run import Run
from truecluster._registry import SILENT, Events
from truecluster.api import Busy, RequestFinished, TrueClusterError

from .departures import Departures
from .load import Load
from .params import sample_params
from .requests import Event, FinishedEvent, OnEvent, Request
from .scheduler import Scheduler
from .sequences import Sequence
from .tally import Tally, Watched

QUEUE = 256
"""Requests that may wait by default, besides those that are served."""


class RunFactory(Protocol):
    """Where runs come from. Called on the engine's thread; both may block."""

    def create(self) -> Run | None:
        """A run that is ready, or ``None`` once the engine is to stop. Raises when there will be none."""

    def release(self, run: Run) -> None:
        """Tear a run down that has ended; returns when its threads and memory are free."""


class Handle:
    """A submitted request."""

    def __init__(self, sequence: Sequence, cancel: Callable[[Sequence], None]) -> None:
        self._sequence = sequence
        self._cancel = cancel

    def cancel(self) -> None:
        """From any thread, any number of times: the request ends with ``cancelled`` unless it has ended."""
        self._cancel(self._sequence)


class Engine:
    """Start it, submit, stop it. After `failure` is set nothing is taken any more. ``events`` hear how requests end.

    At most ``queue`` requests wait.
    """

    def __init__(self, factory: RunFactory, events: Events = SILENT, queue: int = QUEUE) -> None:
        self.failure: TrueClusterError | None = None
        self.tally = Tally()
        self._factory = factory
        self._events = events
        self._changed = threading.Condition()
        self._arrived: deque[Sequence] = deque()
        self._most_waiting = queue
        self._scheduler: Scheduler | None = None
        self._departures = Departures()
        self._stopping = False
        self._run: Run | None = None
        self._progressed = time.monotonic()
        self._there = threading.Event()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Cancel what is under way and wait for the thread (seconds). The factory must stop by itself."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._run is not None:
            self._run.complete()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def waiting(self) -> int:
        """Requests that are not served yet."""
        scheduler = self._scheduler
        return len(self._arrived) + (len(scheduler.waiting) if scheduler else 0)

    @property
    def load(self) -> Load:
        """What there is to do. From any thread."""
        run, scheduler = self._run, self._scheduler
        if run is None or scheduler is None:
            return Load(waiting=self.waiting)
        pages = run.capacity.pages
        return Load(
            waiting=self.waiting,
            running=len(scheduler.active),
            pages_held=pages - scheduler.free_pages,
            pages=pages,
            in_flight=run.in_flight,
            stalled_s=None if scheduler.idle else time.monotonic() - self._progressed,
        )

    def wait_ready(self, timeout: float) -> bool:
        """Wait for a run (seconds); says whether there is one."""
        return self._there.wait(timeout)

    def submit(self, request: Request, on_event: OnEvent) -> Handle:
        """Queue a request; it waits for a run if there is none. Raises `Busy` where as many wait as may."""
        assert request.prompt, "a request has at least one token"
        sequence = Sequence(request, sample_params(request), self._observed(request, on_event))
        if request.max_tokens == 0 and not sequence.judges:
            sequence.finish("length")
        elif not self._queue(sequence):
            sequence.finish("error", self._why_stopped())
        return Handle(sequence, self._cancel)

    def _observed(self, request: Request, on_event: OnEvent) -> OnEvent:
        watched = Watched(request, self.tally)

        def hear(event: Event) -> None:
            watched.hear(event)
            if isinstance(event, FinishedEvent):
                self._departures.note()
                self._events.emit(_finished(request, event, time.monotonic() - watched.began))
            on_event(event)

        return hear

    def _queue(self, sequence: Sequence) -> bool:
        with self._changed:
            if self._stopping:
                return False
            if self.waiting >= self._most_waiting:
                raise Busy(
                    f"{self.waiting} requests wait already, and no more may; try again later",
                    self._departures.interval,
                )
            self._arrived.append(sequence)
            self._changed.notify_all()
            return True

    def _cancel(self, sequence: Sequence) -> None:
        with self._changed:
            sequence.cancelled = True
            waits = sequence in self._arrived
            if waits:
                self._arrived.remove(sequence)
            self._changed.notify_all()
        if waits:
            sequence.finish("cancelled")

    def _why_stopped(self) -> str:
        return str(self.failure or "the engine has stopped")

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while not self._stopping and (run := self._factory.create()) is not None:
                self._run = run
                self._there.set()
                self._serve(run)
        except TrueClusterError as error:
            self.failure = error
        except Exception as error:
            self.failure = TrueClusterError(f"the engine failed: {type(error).__name__}: {error}")
            raise
        finally:
            with self._changed:
                self._stopping = True
                left = [*self._arrived]
                self._arrived.clear()
            for sequence in left:
                sequence.finish("error", self._why_stopped())

    def _serve(self, run: Run) -> None:
        """Drive a run until it ends, then finish what it leaves."""
        scheduler = self._scheduler = Scheduler(run.capacity, run.update, len(run.plan.stages))
        run.when_ended(self._wake)
        try:
            while self._take(run, scheduler):
                self._advance(run, scheduler)
        except TrueClusterError as error:
            run.fault(error)
        finally:
            run.complete()
            self._run = self._scheduler = None
            self._there.clear()
            self._leave(run, scheduler)

    def _leave(self, run: Run, scheduler: Scheduler) -> None:
        """Requests that were under way fail once the run is gone; those that only waited wait for the next."""
        with self._changed:
            self._arrived.extendleft(reversed([*scheduler.waiting]))
            gone = [sequence for sequence in self._arrived if sequence.cancelled]
            for sequence in gone:
                self._arrived.remove(sequence)
        for sequence in gone:
            sequence.finish("cancelled")
        try:
            self._factory.release(run)
        finally:
            scheduler.fail(str(run.failure or self._why_stopped()))

    def _take(self, run: Run, scheduler: Scheduler) -> bool:
        """Move arrivals over, waiting for some while there is nothing to do; ``False`` when it is time to stop."""
        with self._changed:
            if scheduler.idle:
                self._changed.wait_for(lambda: self._arrived or self._stopping or run.ended)
                self._progressed = time.monotonic()
            scheduler.waiting.extend(self._arrived)
            self._arrived.clear()
            return not (self._stopping or run.ended)

    def _advance(self, run: Run, scheduler: Scheduler) -> None:
        """Send a step if there is one to send and credit for it, else wait for an answer.

        Tokens are handed on when the step is on its way: those who wake up for them compete with the stages of this
        process for the interpreter.
        """
        step = scheduler.next_step() if run.in_flight < run.plan.depth else None
        if step is not None:
            run.send(step)
            self.tally.steps += 1
            scheduler.constrain()
        scheduler.tell()
        if step is None and run.in_flight:
            answer = run.receive()
            self._progressed = time.monotonic()
            scheduler.answered(answer.ids, answer.logprobs)


def _finished(request: Request, event: FinishedEvent, seconds: float) -> RequestFinished:
    return RequestFinished(
        reason=event.reason,
        prompt_tokens=len(request.prompt),
        generated_tokens=event.generated,
        seconds=seconds,
        message=event.message,
    )
