"""The steps of a run: what is to be in one becomes its rows and tables, and what its answer brings is known again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs

from truecluster._pipeline.run import Step
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Opened, Page, Row

from .sequences import Sequence


@attrs.define
class Content:
    """What a step holds: so many streams and tokens of prompts, the furthest chunk of which is at ``position``.

    It was one of ``groups`` that ``running`` streams were split into.
    """

    streams: int
    prompt: int
    position: int
    running: int
    groups: int


@attrs.define
class Sent:
    """A step on its way, since the time ``at``.

    ``awaited`` has a sequence, and the number that the stages know it by, once for each answer; ``last`` has those
    whose next token it brings.
    """

    content: Content
    awaited: list[tuple[Sequence, int]]
    last: list[tuple[Sequence, int]]
    at: float

    @property
    def holds_up(self) -> bool:
        """Whether anybody who is still there waits for it with a token to come."""
        return any(sequence.number == number for sequence, number in self.last)


class Steps:
    """Numbers sequences and updates of a run. ``update`` takes parameters of sampling to the head."""

    def __init__(self, update: Callable[[SampleUpdate], object]) -> None:
        self.under_way: deque[Sent] = deque()
        self._update = update
        self._updates = 0
        self._numbers = 0
        self._released: list[int] = []
        self._unmasked: list[Sequence] = []

    @property
    def releases(self) -> bool:
        """Whether the next step has to tell the stages of a sequence that has left."""
        return bool(self._released)

    def release(self, sequence: Sequence) -> None:
        """The stages are to forget it with the next step."""
        if sequence.opened:
            self._released.append(sequence.number)

    def make(self, counts: Mapping[Sequence, int], streams: int, running: int, groups: int, now: float) -> Step:
        """So many of each sequence's next tokens, from now on under way; the first ``streams`` of them decode."""
        opened = tuple([self._open(sequence) for sequence in counts if not sequence.opened])
        for sequence in [s for s, count in counts.items() if s.constraint is not None and count == s.left]:
            sequence.update = self._next_update()
            self._unmasked.append(sequence)
        rows = [_row(sequence, count) for sequence, count in counts.items()]
        step = Step(
            rows=tuple(rows),
            ids=[t for s, count in counts.items() for t in s.tokens[s.sent : s.sent + count]],
            opened=opened,
            pages=tuple([Page(s.number, page) for s in counts for page in s.pages[s.named :]]),
            released=tuple(self._released),
            prefill=len(counts) > streams,
        )
        self._released = []
        content = Content(
            streams=streams,
            prompt=len(step.ids) - streams,
            position=max([row.position for row in rows[streams:]], default=0),
            running=running,
            groups=groups,
        )
        awaited = [(s, s.number) for s, row in zip(counts, rows, strict=True) for _ in range(row.n_logits)]
        last = [(s, s.number) for s, count in counts.items() if s.left == count]
        self.under_way.append(Sent(content, awaited, last, now))
        return step

    def constrain(self, mask_of: Callable[[Sequence], bytes]) -> None:
        """Tell the head which tokens may come in the last step, of sequences that are constrained."""
        for sequence in self._unmasked:
            update = SampleUpdate(number=sequence.update, sequence=sequence.number, params=sequence.params)
            self._update(attrs.evolve(update, mask=mask_of(sequence)))
        self._unmasked.clear()

    def _open(self, sequence: Sequence) -> Opened:
        self._numbers += 1
        sequence.number, sequence.update = self._numbers, self._next_update()
        prompt, answer = sequence.request.prompt, sequence.tokens[len(sequence.request.prompt) :]
        given = prompt if sequence.asked < len(prompt) - 1 else ()
        self._update(SampleUpdate.of(sequence.update, sequence.number, sequence.params, prompt, answer, given))
        return Opened(sequence.number, sequence.sent)

    def _next_update(self) -> int:
        self._updates += 1
        return self._updates


def _row(sequence: Sequence, count: int) -> Row:
    wanted = sequence.wanted(count)
    return Row(sequence.number, sequence.sent, count, wanted, sequence.update if wanted else 0)
