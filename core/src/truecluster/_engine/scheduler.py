"""Which sequences go into the next step. One group at a time: a step whose samples are awaited is the last one sent.

Every page that a request may need is set aside when it is admitted, so that an admitted request never fails for lack
of cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from truecluster._pipeline.machines import REQUEST, Machine, RequestState
from truecluster._pipeline.run import Capacity, Step
from truecluster._pipeline.sampler import NOT_A_TOKEN, SampleParams
from truecluster._pipeline.stage import SampleUpdate
from truecluster._wire.steps import Opened, Page, Row
from truecluster.nn import PAGE

from .requests import FinishedEvent, FinishReason, OnEvent, Request, TokenEvent


@attrs.define(eq=False)
class Sequence:
    """A request under way. ``tokens`` are prompt and answer, the first ``sent`` of which went through the stages."""

    request: Request
    params: SampleParams
    on_event: OnEvent
    tokens: list[int]
    machine: Machine[RequestState] = attrs.field(factory=lambda: Machine(REQUEST, RequestState.QUEUED))
    cancelled: bool = False
    number: int = -1
    update: int = 0
    sent: int = 0
    pages: list[int] = attrs.field(factory=list)
    generated: int = 0
    untold: list[int] = attrs.field(factory=list)

    @property
    def length(self) -> int:
        """Tokens of prompt and answer that go through the stages; the last one is never fed back."""
        return len(self.request.prompt) + self.request.max_tokens - 1

    @property
    def pages_needed(self) -> int:
        """For all of `length`."""
        return -(-self.length // PAGE)

    def tell(self) -> None:
        """Hand the tokens that have come to whoever asked."""
        for token in self.untold:
            self.on_event(TokenEvent(token))
        self.untold.clear()

    def finish(self, reason: FinishReason, message: str | None = None) -> None:
        self.tell()
        if self.machine.try_to(RequestState.FINISHED):
            self.on_event(FinishedEvent(reason=reason, generated=self.generated, message=message))

    @property
    def finished(self) -> bool:
        return self.machine.state is RequestState.FINISHED


class Scheduler:
    """The sequences of one run, and its pages."""

    def __init__(self, capacity: Capacity, update: Callable[[SampleUpdate], object]) -> None:
        self.waiting: deque[Sequence] = deque()
        self.active: list[Sequence] = []
        self._capacity = capacity
        self._update = update
        self._updates = 0
        self._numbers = 0
        self._free = list(range(capacity.pages))[::-1]
        self._reserved = 0
        self._released: list[int] = []
        self._awaited: deque[list[Sequence]] = deque()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not (self.waiting or self.active)

    @property
    def free_pages(self) -> int:
        """Pages that no request holds."""
        return len(self._free)

    def next_step(self) -> Step | None:
        """The step to send now, or ``None`` if only an answer or a new request can make one."""
        self._drop_cancelled()
        if any(self._awaited):
            return None
        opened = self._admit()
        chunks = self._chunks()
        if not chunks:
            return None
        step = Step(
            rows=tuple(self._row(sequence, count) for sequence, count in chunks),
            ids=[t for sequence, count in chunks for t in sequence.tokens[sequence.sent : sequence.sent + count]],
            opened=tuple(opened),
            pages=tuple(page for sequence, count in chunks for page in self._extend(sequence, count)),
            released=tuple(self._released),
            prefill=any(sequence.generated == 0 for sequence, _ in chunks),
        )
        self._released = []
        for sequence, count in chunks:
            sequence.sent += count
        self._awaited.append([s for s, _ in chunks if s.sent == len(s.tokens)])
        return step

    def answered(self, ids: list[int]) -> None:
        """Give the oldest step's tokens to its sequences, which hand them on when they are finished or told to."""
        for sequence, token in zip(self._awaited.popleft(), ids, strict=True):
            if not sequence.finished:
                self._deliver(sequence, token)

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

    def _deliver(self, sequence: Sequence, token: int) -> None:
        sequence.machine.try_to(RequestState.DECODE)
        sequence.generated += 1
        if token == NOT_A_TOKEN:
            sequence.generated -= 1
            sequence.finish("error", "the model gave logits that are not finite; try --dtype fp32 or another --quant")
        elif token in sequence.request.eos:
            sequence.finish("stop")
        else:
            sequence.tokens.append(token)
            sequence.untold.append(token)
            if sequence.generated >= sequence.request.max_tokens:
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

    def _admit(self) -> list[Opened]:
        """The sequences that there is room for now, all of which the next step opens."""
        opened: list[Opened] = []
        while self.waiting and len(self.active) < self._capacity.sequences:
            sequence = self.waiting[0]
            refusal = self._refusal(sequence)
            if refusal is not None:
                self.waiting.popleft().finish("error", refusal)
            elif sequence.pages_needed > self._capacity.pages - self._reserved:
                break
            else:
                opened.append(self._open(self.waiting.popleft()))
        return opened

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

    def _open(self, sequence: Sequence) -> Opened:
        sequence.machine.to(RequestState.PREFILL)
        self._numbers += 1
        self._updates += 1
        sequence.number, sequence.update = self._numbers, self._updates
        self._reserved += sequence.pages_needed
        self._update(SampleUpdate(number=sequence.update, sequence=sequence.number, params=sequence.params))
        self.active.append(sequence)
        return Opened(sequence.number)

    def _release(self, sequence: Sequence) -> None:
        self.active.remove(sequence)
        self._reserved -= sequence.pages_needed
        self._free.extend(reversed(sequence.pages))
        self._released.append(sequence.number)

    def _chunks(self) -> list[tuple[Sequence, int]]:
        """Every sequence's next tokens: one where it decodes, as much of a prompt as the step has room for."""
        room, chunks = self._capacity.max_tokens, []
        for sequence in sorted(self.active, key=lambda s: len(s.tokens) - s.sent):
            count = min(len(sequence.tokens) - sequence.sent, room)
            if count:
                chunks.append((sequence, count))
                room -= count
        return chunks

    def _row(self, sequence: Sequence, count: int) -> Row:
        last = sequence.sent + count == len(sequence.tokens)
        return Row(sequence.number, sequence.sent, count, int(last), sequence.update if last else 0)

    def _extend(self, sequence: Sequence, count: int) -> list[Page]:
        added = []
        while len(sequence.pages) * PAGE < sequence.sent + count:
            sequence.pages.append(self._free.pop())
            added.append(Page(sequence.number, sequence.pages[-1]))
        return added
