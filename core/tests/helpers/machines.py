"""Stages whose times are made up: a scheduler's steps pass them in order, and a clock goes on by what they take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
from scheduled import House

from truecluster._pipeline.run import Step


@attrs.frozen
class Stage:
    """Seconds of a step: some, and for each token in it."""

    step: float
    token: float

    def seconds(self, tokens: int) -> float:
        return self.step + self.token * tokens


@attrs.define
class Pipeline:
    """``stages`` equal ones, each on a machine of its own, or all ``together`` on one that takes steps in turn."""

    stage: Stage
    stages: int
    together: bool = False
    noise: Callable[[int], float] = lambda step: 1.0
    free: list[float] = attrs.field(init=False)
    steps: int = 0

    def __attrs_post_init__(self) -> None:
        self.free = [0.0] * self.stages

    def answer_at(self, now: float, step: Step) -> float:
        """When a step that is sent now is answered."""
        took = self.stage.seconds(len(step.ids)) * self.noise(self.steps)
        self.steps += 1
        for index in range(self.stages):
            place = 0 if self.together else index
            now = self.free[place] = max(now, self.free[place]) + took
        return now


class Pipelined(House):
    """A house over a pipeline, driven as the engine does."""

    def __init__(self, pipeline: Pipeline, **numbers) -> None:
        self.now, self.pipeline = 0.0, pipeline
        numbers = {"pages": 8000, "sequences": 80, "max_tokens": 512, "context": 10**6} | numbers
        super().__init__(**numbers, stages=pipeline.stages, clock=lambda: self.now)
        self.in_flight: deque[tuple[Step, float]] = deque()
        self.tokens = 0

    def step(self) -> Step | None:
        """Unchecked: contexts are long."""
        return self.scheduler.next_step()

    def turn(self) -> None:
        """Send what can be sent, then wait for an answer."""
        while len(self.in_flight) <= self.pipeline.stages and (step := self.step()) is not None:
            self.in_flight.append((step, self.pipeline.answer_at(self.now, step)))
        step, at = self.in_flight.popleft()
        self.now = max(self.now, at)
        self.tokens += sum(row.n_logits for row in step.rows)
        self.answer(step)

    def streams(self, count: int) -> None:
        """So many that never end; none is a prompt any more."""
        for number in range(count):
            self.add([number] * 20, max_tokens=10**5)
        while any(s.generated == 0 for s in self.scheduler.active) or self.scheduler.waiting:
            self.turn()

    def rate(self, tokens: int) -> float:
        """Tokens a second over so many."""
        began, before = self.now, self.tokens
        while self.tokens < before + tokens:
            self.turn()
        return (self.tokens - before) / (self.now - began)

    def settle(self, tokens: int) -> float:
        """Tokens a second once whatever is to be tried out was, within so many tokens of each stream."""
        streams = len(self.scheduler.active)
        self.rate(tokens * streams)
        return self.rate(50 * streams)
