"""Which sequences go into the next step.

Running streams are split into as many groups as pays (`groups`), each a step of its own, so that stages on machines
of their own work at once; a stream is in one step at a time. With each step go chunks of prompts, as much as streams
bear (`pace`). Streams that wait longest for their step go first, so none waits for more than all others once.

Pages are given as they are needed. Where none is free, the youngest sequence gives up its own and goes through the
stages again later, from its tokens; an older one never waits for a younger one's pages. So the oldest always goes on,
which ends every wait, and no request that was admitted fails for lack of pages. Stages learn what is released in the
order of steps, so pages are nobody else's before those steps are past that were sent with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import islice
from operator import attrgetter

from truecluster._pipeline.logprobs import Logprobs
from truecluster._pipeline.machines import RequestState
from truecluster._pipeline.run import Capacity, Step
from truecluster._pipeline.sampler import NOT_A_TOKEN
from truecluster._pipeline.sampling import SampleUpdate
from truecluster.api import RequestError
from truecluster.nn import PAGE

from .groups import Groups
from .holdings import Holdings
from .line import Line
from .pace import Pace
from .refusals import refusal
from .sequences import Sequence
from .steps import Steps

OLDEST_FIRST = 4


class Scheduler:
    """The sequences of one run of so many ``stages``, and its pages. ``clock`` tells seconds.

    ``active`` are those under way, in the order in which they were admitted. Each is a prompt, of which some is still
    to be sent; or a stream whose last token has come; or its next token is under way.
    """

    def __init__(
        self,
        capacity: Capacity,
        update: Callable[[SampleUpdate], object],
        stages: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.waiting = Line()
        self.active: list[Sequence] = []
        self._prompts: list[Sequence] = []
        self._streams: dict[Sequence, None] = {}
        self._capacity = capacity
        self._clock = clock
        self._admitted = 0
        self._turns = 1
        self._holdings = Holdings(capacity.pages, capacity.cached_starts)
        self._pace = Pace()
        self._groups = Groups(stages)
        self._steps = Steps(update)
        self._last_answer = clock()

    @property
    def idle(self) -> bool:
        """Whether nothing waits, nothing is under way, and the stages know it."""
        return not (self.waiting or self.active or self._steps.releases or self._steps.under_way)

    @property
    def free_pages(self) -> int:
        """Pages that no request holds."""
        return self._holdings.free

    def next_step(self) -> Step | None:
        """The step to send now, or ``None`` if only an answer or a new request can make one."""
        self._drop_cancelled()
        running = len(self.active) - len(self._prompts)
        groups = self._groups.count(running)
        held_up = sum(sent.holds_up for sent in self._steps.under_way)
        if held_up >= groups or (held_up and not self._streams):
            return None
        self._admit()
        counts = self._decoding(-(-running // groups))
        streams = len(counts)
        self._add_prompts(counts, groups)
        if not counts and (self._steps.under_way or not self._steps.releases):
            return None
        step = self._steps.make(counts, streams, running, groups, self._clock())
        self._went(counts)
        return step

    def answered(self, ids: list[int], logprobs: Collection[Logprobs | None] = ()) -> None:
        """Give the oldest step's tokens to its sequences, which hand them on when they are finished or told to.

        None to those that have left the stages since: they go through them again, if at all.
        """
        sent, now = self._steps.under_way.popleft(), self._clock()
        held, last = sent.content, self._last_answer
        self._last_answer = now
        self._groups.observe(held.running, held.groups, held.prompt > 0, now - last)
        if held.streams or held.prompt:
            self._pace.observe(held.streams, held.prompt, held.position, now - max(sent.at, last), held.groups)
        for (sequence, number), token, likely in zip(sent.awaited, ids, logprobs or [None] * len(ids), strict=True):
            if sequence.number == number:
                self._deliver(sequence, token, likely)

    def constrain(self) -> None:
        """Tell the head which tokens may come in the step that was sent.

        It waits for that where the stages are done first; they work while grammars are asked.
        """
        self._steps.constrain(self._mask_of)

    def tell(self) -> None:
        """Hand every token that has come to whoever asked."""
        for sequence in self.active:
            if sequence.untold:
                sequence.tell()

    def fail(self, message: str) -> None:
        """Finish everything that is under way."""
        for sequence in self.active:
            if sequence.cancelled:
                sequence.finish("cancelled")
            sequence.finish("error", message)
        self.active.clear()

    def _mask_of(self, sequence: Sequence) -> bytes:
        """No token may come where the constraint fails, which ends the request."""
        assert sequence.constraint is not None
        try:
            return sequence.constraint.mask()
        except RequestError as error:
            sequence.finish("error", str(error))
            self._release(sequence)
            return b""

    def _deliver(self, sequence: Sequence, token: int, logprobs: Logprobs | None) -> None:
        if token == NOT_A_TOKEN:
            sequence.finish("error", "the model gave logits that are not finite; try --dtype fp32 or another --quant")
        elif sequence.judges:
            assert logprobs is not None
            sequence.judge(logprobs)
        else:
            sequence.sampled(token, logprobs)
            self._streams[sequence] = None
        if not sequence.judges and sequence.generated >= sequence.request.max_tokens:
            sequence.finish("length")
        if sequence.finished:
            self._release(sequence)

    def _drop_cancelled(self) -> None:
        for sequence in [s for s in self.active if s.cancelled]:
            sequence.finish("cancelled")
            self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        """Take back its slot and pages; the stages learn of it with the next step."""
        self.active.remove(sequence)
        self._streams.pop(sequence, None)
        if sequence in self._prompts:
            self._prompts.remove(sequence)
        self._steps.release(sequence)
        self._holdings.release(sequence)

    def _admit(self) -> None:
        """Those whose turn it is, while there are slots and pages; nobody is overtaken."""
        for sequence in [s for s in self.waiting if s.cancelled]:
            self.waiting.remove(sequence)
            sequence.finish("cancelled")
        while self.waiting and len(self.active) < self._capacity.sequences:
            sequence = self.waiting.first
            why_not = refusal(sequence, self._capacity)
            if why_not is not None:
                self.waiting.take().finish("error", why_not)
            elif not self._holdings.has_room(sequence, self.active):
                return
            else:
                self._enter(self.waiting.take())

    def _enter(self, sequence: Sequence) -> None:
        self._admitted += 1
        sequence.admitted = self._admitted
        sequence.machine.try_to(RequestState.PREFILL)
        self.active.append(sequence)
        self._prompts.append(sequence)

    def _decoding(self, most: int) -> dict[Sequence, int]:
        """One token of each of the streams that wait longest; pages are given to the oldest first."""
        counts: dict[Sequence, int] = {}
        chosen = islice(self._streams, min(most, self._capacity.max_tokens))
        for sequence in sorted(chosen, key=attrgetter("admitted")):
            self._give(sequence, 1, counts)
        if not counts:  # no pages for those whose turn it is: the oldest that has room, or can take some, goes first
            for sequence in sorted(self._streams, key=attrgetter("admitted")):
                if self._give(sequence, 1, counts):
                    break
        return counts

    def _add_prompts(self, counts: dict[Sequence, int], groups: int) -> None:
        """Chunks of prompts, as much as running streams bear.

        The shortest come first, but every `OLDEST_FIRST`-th time the oldest, so that it isn't overtaken for ever.
        """
        prompts = [s for s in self._prompts if s.started or self._holdings.start(s, self.active)]
        if not prompts:
            return
        oldest = None if self._turns % OLDEST_FIRST else prompts[0]
        prompts.sort(key=lambda s: (s is not oldest, s.left))
        left = self._capacity.max_tokens - len(counts)
        room = self._pace.prompt_tokens(len(counts), left, prompts[0].sent, groups)
        self._turns += room > 0
        for sequence in prompts:
            room -= self._give(sequence, min(sequence.chunk, room), counts)

    def _give(self, sequence: Sequence, count: int, counts: dict[Sequence, int]) -> int:
        """Put up to ``count`` of its tokens into the step, as there are pages for them; says how many.

        None of a sequence that gave up its pages to one before it.
        """
        until = sequence.sent + count if sequence.started else 0
        while (room := len(sequence.pages) * PAGE) < until and self._extend(sequence, counts):
            pass
        given = max(0, min(until, room) - sequence.sent)
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
            victim.tell()  # what has come doesn't wait for its return
            self.waiting.put_back(victim)
        return True

    def _went(self, counts: dict[Sequence, int]) -> None:
        for sequence, count in counts.items():
            self._holdings.went(sequence, count)
            if sequence in self._streams:
                del self._streams[sequence]
            elif sequence.left == 0:
                self._prompts.remove(sequence)
