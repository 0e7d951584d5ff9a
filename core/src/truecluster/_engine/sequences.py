"""A request under way."""

from __future__ import annotations

import attrs

from truecluster._pipeline.logprobs import Logprobs
from truecluster._pipeline.machines import REQUEST, Machine, RequestState
from truecluster._pipeline.sampler import SampleParams
from truecluster.nn import PAGE

from .requests import (
    CachedEvent,
    Constraint,
    FinishedEvent,
    FinishReason,
    OnEvent,
    PromptEvent,
    Request,
    TokenEvent,
)

UNOPENED = -1
ASKED_AT_ONCE = 32
"""Tokens of a sequence that one step may ask logits for: each costs the head up to a millisecond."""


def _constraint(sequence: Sequence) -> Constraint | None:
    make = sequence.request.constraint
    return None if make is None else make()


def _to_send(sequence: Sequence) -> list[int]:
    return list(sequence.request.prompt[: sequence.length])


@attrs.define(eq=False)
class Sequence:
    """``tokens`` are prompt and answer, the first ``sent`` of which went through the stages or lay in shared pages.

    ``number`` is what the stages know it by. ``chain`` are the keys of its full pages, in order; of its ``pages``,
    the stages were told of the first ``named``, and the first ``kept`` are there for others to share. Logits of the
    first ``asked`` tokens are under way, have come, or are of no interest; those that the prompt's first ``judged``
    tokens have log-probabilities from have come.
    """

    request: Request
    params: SampleParams
    on_event: OnEvent
    constraint: Constraint | None = attrs.field(default=attrs.Factory(_constraint, takes_self=True))
    tokens: list[int] = attrs.field(default=attrs.Factory(_to_send, takes_self=True))
    machine: Machine[RequestState] = attrs.field(factory=lambda: Machine(REQUEST, RequestState.QUEUED))
    cancelled: bool = False
    admitted: int = 0
    """Which one it was, of all that a run let in."""
    generated: int = 0
    untold: list[CachedEvent | PromptEvent | TokenEvent] = attrs.field(factory=list)
    judged: int = 1
    asked: int = attrs.field(default=attrs.Factory(lambda self: self.heard, takes_self=True))
    chain: list[bytes] = attrs.field(factory=list)
    number: int = UNOPENED
    update: int = 0
    began: bool = False
    started: bool = False
    sent: int = 0
    pages: list[int] = attrs.field(factory=list)
    named: int = 0
    kept: int = 0

    @property
    def length(self) -> int:
        """Tokens of prompt and answer that go through the stages; the last one is never fed back."""
        return len(self.request.prompt) + self.request.max_tokens - 1

    @property
    def pages_needed(self) -> int:
        """For all of `length`."""
        return -(-self.length // PAGE)

    @property
    def left(self) -> int:
        """Tokens that the stages don't have yet."""
        return len(self.tokens) - self.sent

    @property
    def chunk(self) -> int:
        """How many of these the next step may hold."""
        return min(self.left, max(0, self.asked - self.sent) + ASKED_AT_ONCE)

    @property
    def heard(self) -> int:
        """Of how many tokens, the first ones, logits have come or are of no interest."""
        return self.judged - 1 if self.judges else len(self.tokens) - 1

    @property
    def judges(self) -> bool:
        """Whether log-probabilities of its prompt are still to come."""
        return self.request.prompt_logprobs and self.judged < len(self.request.prompt)

    def wanted(self, count: int) -> int:
        """Of how many of the next ``count`` tokens, the last ones, logits are wanted."""
        return max(0, self.sent + count - max(self.sent, self.asked))

    @property
    def opened(self) -> bool:
        """Whether the stages know it."""
        return self.number != UNOPENED

    @property
    def streams(self) -> bool:
        """Whether its next step gives the token after the last one, without a prompt's chunk."""
        return self.opened and self.generated > 0 and self.left == 1

    @property
    def finished(self) -> bool:
        return self.machine.state is RequestState.FINISHED

    def start(self, pages: list[int]) -> None:
        """Begin with full ``pages`` of others; what they spare is told the first time, when none are its own."""
        self.pages, self.kept, self.sent, self.started = pages, len(pages), len(pages) * PAGE, True
        if pages and not self.began:
            self.untold.append(CachedEvent(self.sent))
        self.began = True

    def judge(self, logprobs: Logprobs) -> None:
        """So likely is the next token of the prompt."""
        self.judged += 1
        self.untold.append(PromptEvent(logprobs))

    def sampled(self, token: int, logprobs: Logprobs | None) -> None:
        """The next token of the answer."""
        if self.generated == 0:
            self.machine.try_to(RequestState.DECODE)
        self.generated += 1
        if token in self.request.eos:
            self.finish("stop")
        else:
            self.tokens.append(token)
            self.untold.append(TokenEvent(token, logprobs))
            if self.constraint is not None and self.constraint.accept(token):
                self.finish("stop")

    def forget(self) -> None:
        """The stages don't have it any more; its tokens stay, to go through them again."""
        self.number, self.started, self.sent, self.named, self.kept = UNOPENED, False, 0, 0, 0
        self.pages, self.asked = [], self.heard

    def tell(self) -> None:
        """Hand the tokens that have come to whoever asked."""
        for event in self.untold:
            self.on_event(event)
        self.untold.clear()

    def finish(self, reason: FinishReason, message: str | None = None) -> None:
        self.tell()
        if self.machine.try_to(RequestState.FINISHED):
            self.on_event(FinishedEvent(reason=reason, generated=self.generated, message=message))
