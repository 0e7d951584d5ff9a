"""A request under way."""

from __future__ import annotations

import attrs

from truecluster._pipeline.machines import REQUEST, Machine, RequestState
from truecluster._pipeline.sampler import SampleParams
from truecluster.nn import PAGE

from .requests import FinishedEvent, FinishReason, OnEvent, Request, TokenEvent

UNOPENED = -1


@attrs.define(eq=False)
class Sequence:
    """``tokens`` are prompt and answer, the first ``sent`` of which went through the stages or lay in shared pages.

    ``number`` is what the stages know it by. ``chain`` are the keys of its full pages, in order; of its ``pages``,
    the stages were told of the first ``named``, and the first ``kept`` are there for others to share.
    """

    request: Request
    params: SampleParams
    on_event: OnEvent
    tokens: list[int]
    machine: Machine[RequestState] = attrs.field(factory=lambda: Machine(REQUEST, RequestState.QUEUED))
    cancelled: bool = False
    generated: int = 0
    untold: list[TokenEvent] = attrs.field(factory=list)
    chain: list[bytes] = attrs.field(factory=list)
    number: int = UNOPENED
    update: int = 0
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

    def forget(self) -> None:
        """The stages don't have it any more; its tokens stay, to go through them again."""
        self.number, self.started, self.sent, self.named, self.kept = UNOPENED, False, 0, 0, 0
        self.pages = []

    def tell(self) -> None:
        """Hand the tokens that have come to whoever asked."""
        for event in self.untold:
            self.on_event(event)
        self.untold.clear()

    def finish(self, reason: FinishReason, message: str | None = None) -> None:
        self.tell()
        if self.machine.try_to(RequestState.FINISHED):
            self.on_event(FinishedEvent(reason=reason, generated=self.generated, message=message))
