"""Which sequences go into the next step. One group at a time: a step whose samples are awaited is the last one sent.

Pages are given as they are needed. Where none is free, the youngest sequence gives up its own and goes through the
stages again later, from its tokens; an older one never waits for a younger one's pages. So the oldest always goes on,
which ends every wait, and no request that was admitted fails for lack of pages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

import attrs

from truecluster._pipeline.logprobs import Logprobs
from truecluster._pipeline.machines import RequestState
from truecluster._pipeline.run import Capacity, Step
from truecluster._pipeline.sampler import NOT_A_TOKEN
from truecluster._pipeline.sampling import SampleUpdate
from truecluster._wire.steps import Opened, Page, Row
from truecluster.nn import PAGE

from .holdings import Holdings
from .pace import Pace
from .sequences import Sequence

OLDEST_FIRST = 4


@attrs.frozen
class _Sent:
    """A step on its way: whose answers are awaited, how many streams and tokens of prompts it holds, and since when.

    ``awaited`` has a sequence, and its number, once for each answer; ``position`` is that of the furthest chunk.
    """

    awaited: list[tuple[Sequence, int]]
    streams: int
    prompt: int
    position: int
    at: float


class Scheduler:
    """The sequences of one run, and its pages. ``clock`` tells seconds."""

    def __init__(
        self,
        capacity: Capacity,
        update: Callable[[SampleUpdate], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.waiting: deque[Sequence] = deque()
        self.active: list[Sequence] = []
        self._capacity = capacity
        self._update = update
        self._clock = clock
        self._updates = 0
        self._numbers = 0
        self._turns = 1
        self._holdings = Holdings(capacity.pages, capacity.cached_starts)
        self._pace = Pace()
        self._released: list[int] = []
        self._sent: deque[_Sent] = deque()
        self._last_answer = clock()

    @property
    def idle(self) -> bool:
        """Whether nothing waits, nothing is under way, and the stages know it."""
        return not (self.waiting or self.active or self._released or self._sent)

    @property
    def free_pages(self) -> int:
        """Pages that no request holds."""
        return self._holdings.free

    def next_step(self) -> Step | None:
        """The step to send now, or ``None`` if only an answer or a new request can make one."""
        self._drop_cancelled()
        if any(sequence.left == 0 for sent in self._sent for sequence, _ in sent.awaited):
            return None
        self._admit()
        counts = self._streams()
        streams = len(counts)
        self._add_prompts(counts)
        if not counts and (self._sent or not self._released):
            return None
        return self._step(counts, streams)

    def answered(self, ids: list[int], logprobs: Collection[Logprobs | None] = ()) -> None:
        """Give the oldest step's tokens to its sequences, which hand them on when they are finished or told to.

        None to those that have left the stages since: they go through them again, if at all.
        """
        sent, now = self._sent.popleft(), self._clock()
        if sent.streams or sent.prompt:
            self._pace.observe(sent.streams, sent.prompt, sent.position, now - max(sent.at, self._last_answer))
        self._last_answer = now
        for (sequence, number), token, likely in zip(sent.awaited, ids, logprobs or [None] * len(ids), strict=True):
            if sequence.number == number:
                self._deliver(sequence, token, likely)

    def tell(self) -> None:
        """Hand every token that has come to whoever asked."""
        for sequence in self.active:
            sequence.tell()

    def fail(self, message: str) -> None:
        """Finish everything that is under way."""
        for sequence in self.active:
            if sequence.cancelled:
                sequence.finish("cancelled")
            sequence.finish("error", message)
        self.active.clear()

    def _deliver(self, sequence: Sequence, token: int, logprobs: Logprobs | None) -> None:
        if token == NOT_A_TOKEN:
            sequence.finish("error", "the model gave logits that are not finite; try --dtype fp32 or another --quant")
        elif sequence.judges:
            assert logprobs is not None
            sequence.judge(logprobs)
        else:
            sequence.sampled(token, logprobs)
        if not sequence.judges and sequence.generated >= sequence.request.max_tokens:
            sequence.finish("length")
        if sequence.finished:
            self._release(sequence)

    def _drop_cancelled(self) -> None:
        for sequence in [s for s in self.active if s.cancelled]:
            sequence.finish("cancelled")
            self._release(sequence)
        for sequence in [s for s in self.waiting if s.cancelled]:
            self.waiting.remove(sequence)
            sequence.finish("cancelled")

    def _release(self, sequence: Sequence) -> None:
        """Take back its slot and pages; the stages learn of it with the next step."""
        self.active.remove(sequence)
        if sequence.opened:
            self._released.append(sequence.number)
        self._holdings.release(sequence)

    def _admit(self) -> None:
        """Those that have waited longest, while there are slots and pages; nobody is overtaken."""
        while self.waiting and len(self.active) < self._capacity.sequences:
            sequence = self.waiting[0]
            refusal = self._refusal(sequence)
            if refusal is not None:
                self.waiting.popleft().finish("error", refusal)
            elif not self._holdings.has_room(sequence, self.active):
                return
            else:
                sequence.machine.try_to(RequestState.PREFILL)
                self.active.append(self.waiting.popleft())

    def _refusal(self, sequence: Sequence) -> str | None:
        """Why the run could never serve the request."""
        capacity = self._capacity
        if sequence.length > capacity.context:
            return (
                f"prompt and answer have {sequence.length} tokens, a sequence may have {capacity.context}; "
                "ask for fewer tokens"
            )
        if sequence.pages_needed > capacity.pages:
            return (
                f"prompt and answer need {sequence.pages_needed * PAGE} tokens of cache, the run has "
                f"{capacity.pages * PAGE}; ask for fewer tokens"
            )
        return None

    def _streams(self) -> dict[Sequence, int]:
        """One token of every sequence that decodes, the oldest first."""
        counts: dict[Sequence, int] = {}
        for sequence in [s for s in self.active if s.streams][: self._capacity.max_tokens]:
            self._give(sequence, 1, counts)
        return counts

    def _add_prompts(self, counts: dict[Sequence, int]) -> None:
        """Chunks of prompts, as much as running streams bear.

        The shortest come first, but every `OLDEST_FIRST`-th time the oldest, so that it isn't overtaken for ever.
        """
        due = [s for s in self.active if s.left and not s.streams]
        prompts = [s for s in due if s.started or self._holdings.start(s, self.active)]
        if not prompts:
            return
        oldest = None if self._turns % OLDEST_FIRST else prompts[0]
        prompts.sort(key=lambda s: (s is not oldest, s.left))
        room = self._pace.prompt_tokens(len(counts), self._capacity.max_tokens - len(counts), prompts[0].sent)
        self._turns += room > 0
        for sequence in prompts:
            room -= self._give(sequence, min(sequence.chunk, room), counts)

    def _give(self, sequence: Sequence, count: int, counts: dict[Sequence, int]) -> int:
        """Put up to ``count`` of its tokens into the step, as there are pages for them; says how many.

        None of a sequence that gave up its pages to one before it.
        """
        until = sequence.sent + count if sequence.started else 0
        while len(sequence.pages) * PAGE < until and self._extend(sequence, counts):
            pass
        given = max(0, min(until, len(sequence.pages) * PAGE) - sequence.sent)
        if given:
            counts[sequence] = given
        return given

    def _extend(self, sequence: Sequence, counts: dict[Sequence, int]) -> bool:
        """Another page: a free one, or one of a younger sequence that isn't in the step."""
        while not self._holdings.extend(sequence):
            younger = self.active[self.active.index(sequence) + 1 :]
            victim = next((s for s in reversed(younger) if s.pages and s not in counts), None)
            if victim is None:
                return False
            self._release(victim)
            self.waiting.appendleft(victim)
        return True

    def _step(self, counts: dict[Sequence, int], streams: int) -> Step:
        opened = [self._open(sequence) for sequence in counts if not sequence.opened]
        step = Step(
            rows=tuple(_row(sequence, count) for sequence, count in counts.items()),
            ids=[t for sequence, count in counts.items() for t in sequence.tokens[sequence.sent :][:count]],
            opened=tuple(opened),
            pages=tuple(Page(s.number, page) for s in counts for page in s.pages[s.named :]),
            released=tuple(self._released),
            prefill=len(counts) > streams,
        )
        self._released = []
        position = max((s.sent for s in list(counts)[streams:]), default=0)
        for sequence, count in counts.items():
            self._holdings.went(sequence, count)
        prompt = len(step.ids) - streams
        awaited = [(s, s.number) for s, row in zip(counts, step.rows, strict=True) for _ in range(row.n_logits)]
        self._sent.append(_Sent(awaited, streams, prompt, position, self._clock()))
        return step

    def _open(self, sequence: Sequence) -> Opened:
        self._numbers += 1
        self._updates += 1
        sequence.number, sequence.update = self._numbers, self._updates
        prompt, answer = sequence.request.prompt, sequence.tokens[len(sequence.request.prompt) :]
        given = prompt if sequence.asked < len(prompt) - 1 else ()
        self._update(SampleUpdate.of(sequence.update, sequence.number, sequence.params, prompt, answer, given))
        return Opened(sequence.number, sequence.sent)


def _row(sequence: Sequence, count: int) -> Row:
    wanted = sequence.wanted(count)
    return Row(sequence.number, sequence.sent, count, wanted, sequence.update if wanted else 0)
