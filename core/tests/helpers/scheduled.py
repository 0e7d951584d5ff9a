"""A scheduler whose steps go to a sequence state, as a stage's would."""

from __future__ import annotations

from collections.abc import Callable

from truecluster._engine.requests import FinishedEvent, Request
from truecluster._engine.scheduler import Scheduler
from truecluster._engine.sequences import Sequence
from truecluster._pipeline.run import Capacity, Step
from truecluster._pipeline.sampler import SampleParams
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Row
from truecluster.api import Paged
from truecluster.nn import PAGE, SequenceState
from truecluster.nn import Row as StateRow

EOS = 2


class House:
    """A scheduler with the sequences of the stage that would obey it; ``groups`` that it doesn't choose itself."""

    def __init__(
        self,
        pages: int = 8,
        sequences: int = 3,
        max_tokens: int = 64,
        context: int = 1000,
        cached_starts: bool = True,
        stages: int = 1,
        groups: int | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.updates: list[SampleUpdate] = []
        capacity = Capacity(
            pages=pages, sequences=sequences, max_tokens=max_tokens, context=context, cached_starts=cached_starts
        )
        self.scheduler = Scheduler(capacity, self.updates.append, stages, clock)
        if groups is not None:
            self.scheduler._groups.count = lambda streams: min(groups, max(1, streams))
        self.state = SequenceState({0: Paged({"k": (1,)})}, [], pages=pages, sequences=sequences)
        self.open: dict[int, list[int]] = {}
        self.memory: dict[tuple[int, int], int] = {}
        self.max_tokens = max_tokens

    def add(self, prompt: int | list[int], max_tokens: int = 5, **more) -> Sequence:
        """A request of those tokens, or of so many; its events are kept with it."""
        events: list = []
        ids = range(10, 10 + prompt) if isinstance(prompt, int) else prompt
        request = Request(prompt=tuple(ids), max_tokens=max_tokens, eos=frozenset({EOS}), **more)
        sequence = Sequence(request, SampleParams(), events.append)
        self.scheduler.waiting.append(sequence)
        return sequence

    def step(self) -> Step | None:
        """The next step, after the stage's checks of it."""
        step = self.scheduler.next_step()
        if step is None:
            return None
        for sequence in step.released:
            self.state.release(sequence)
            del self.open[sequence]
        for opened in step.opened:
            self.state.open(*opened)
            self.open[opened.sequence] = []
        for sequence, page in step.pages:
            self.state.extend(sequence, page)
            self.open[sequence].append(page)
        assert len(step.ids) == sum(row.n_tokens for row in step.rows) <= self.max_tokens
        assert step.rows or step.released
        self.state.begin([StateRow(r.sequence, r.position, r.n_tokens) for r in step.rows])
        self.remember(step)
        return step

    def remember(self, step: Step) -> None:
        """Write the step's tokens where a stage puts their keys and values, once all rows have found what precedes."""
        under_way = {sequence.number: sequence for sequence in self.scheduler.active}
        written = {}
        ids = iter(step.ids)
        for row in step.rows:
            tokens, pages = under_way[row.sequence].tokens, self.open[row.sequence]
            assert [self.memory[pages[i // PAGE], i % PAGE] for i in range(row.position)] == tokens[: row.position]
            for i in range(row.position, row.position + row.n_tokens):
                assert sum(pages[i // PAGE] in held for held in self.open.values()) == 1, "wrote into a shared page"
                written[pages[i // PAGE], i % PAGE] = next(ids)
                assert written[pages[i // PAGE], i % PAGE] == tokens[i]
        self.memory |= written

    def answer(self, step: Step, token: Callable[[Row], int] = lambda row: 7) -> None:
        self.scheduler.answered([token(row) for row in step.rows if row.n_logits])
        self.scheduler.tell()

    def rest(self) -> None:
        """Nothing is left to do but to tell the stages of what ended, if anything is."""
        step = self.step()
        if step is not None:
            assert not step.rows
            self.answer(step)
        assert self.scheduler.idle
        assert not self.open


def events(sequence: Sequence) -> list:
    return sequence.on_event.__self__


def finished(reason: str, generated: int) -> FinishedEvent:
    return FinishedEvent(reason=reason, generated=generated)
