"""What the head knows of the sequences whose tokens it samples, and how it comes to know it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import attrs
import torch

from truecluster._wire.messages import Sample
from truecluster.api import EdgeTimeout

from .answers import logprobs_of
from .logprobs import Logprobs
from .penalties import History, from_bits, to_bits
from .sampler import NOT_A_TOKEN, SampleParams, sample, taken


@attrs.frozen(kw_only=True)
class SampleUpdate:
    """How to sample a sequence from now on; ``number`` counts a run's updates from 1.

    ``mask`` says which tokens may come, see `sampler.sample`. A sequence's first update has more: where penalties need
    them the prompt's tokens, a bit for each id, least significant first, and those of the answer so far; ``given`` are
    tokens from the first on that are known, but not how likely they are.
    """

    number: int
    sequence: int
    params: SampleParams
    prompt: bytes = b""
    answer: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    mask: bytes | None = None

    @classmethod
    def of(
        cls,
        number: int,
        sequence: int,
        params: SampleParams,
        prompt: Sequence[int],
        answer: Sequence[int],
        given: tuple[int, ...] = (),
    ) -> SampleUpdate:
        """With as much of prompt and answer as ``params`` need."""
        return cls(
            number=number,
            sequence=sequence,
            params=params,
            prompt=to_bits(prompt) if params.repeats else b"",
            answer=tuple(answer) if params.counts_answer else (),
            given=given,
        )

    @classmethod
    def received(cls, message: Sample) -> SampleUpdate:
        """What a message says."""
        params = SampleParams(**{field.name: getattr(message, field.name) for field in attrs.fields(SampleParams)})
        return cls(
            number=message.number,
            sequence=message.sequence,
            params=params,
            prompt=message.prompt,
            answer=message.answer,
            given=message.given,
            mask=message.mask,
        )

    def message(self, run: int) -> Sample:
        """What tells it to the head of another process."""
        return Sample(
            run=run,
            number=self.number,
            sequence=self.sequence,
            prompt=self.prompt,
            answer=self.answer,
            given=self.given,
            mask=self.mask,
            **attrs.asdict(self.params, recurse=False),
        )


class SequenceSampler:
    """Samples one sequence's tokens, one after another; takes those that are ``given`` as they are.

    ``number`` is that of the update that was applied last.
    """

    def __init__(
        self, params: SampleParams, prompt: bytes = b"", answer: Sequence[int] = (), given: Sequence[int] = ()
    ) -> None:
        self.params = params
        self.mask: bytes | None = None
        self.number = 0
        self._given = given
        self._history = History(from_bits(prompt), list(answer))

    def sample(self, logits: torch.Tensor, position: int) -> tuple[int, Logprobs | None]:
        """The token at ``position`` from ``logits [vocab]`` fp32, as `sampler.sample`, and what is told of it."""
        params = self.params
        given = position < len(self._given)
        token = taken(logits, self._given[position]) if given else self._draw(logits, position)
        if token == NOT_A_TOKEN:
            return token, None
        if params.counts_answer and not given:
            self._history.answer.append(token)
        return token, None if params.logprobs is None else logprobs_of(logits, token, params.logprobs)

    def _draw(self, logits: torch.Tensor, position: int) -> int:
        return sample(logits, self.params, position, self._history, self.mask)


UNTOLD = SequenceSampler(SampleParams())
"""Samples the sequences that no update has named."""


class SampleTable:
    """The samplers of a run's sequences. Updates come from another thread than steps do."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._changed = threading.Condition()
        self._samplers: dict[int, SequenceSampler] = {}

    def apply(self, update: SampleUpdate) -> None:
        """Take an update; those of one sequence arrive in the order of their numbers."""
        with self._changed:
            sampler = self._samplers.get(update.sequence)
            if sampler is None:
                sampler = SequenceSampler(update.params, update.prompt, update.answer, update.given)
                self._samplers[update.sequence] = sampler
            sampler.params, sampler.mask = update.params, update.mask
            sampler.number = update.number  # last: `of` looks at it without the lock
            self._changed.notify_all()

    def of(self, sequence: int, number: int) -> SequenceSampler:
        """The sequence's sampler once its update ``number`` is applied. Raises `EdgeTimeout` if that doesn't come."""
        sampler = self._now(sequence)  # which mostly knows already
        if sampler.number < number:
            with self._changed:
                if not self._changed.wait_for(lambda: self._now(sequence).number >= number, self._timeout):
                    raise EdgeTimeout(f"sampling update {number} didn't arrive within {self._timeout:g} s")
                sampler = self._now(sequence)
        return sampler

    def forget(self, sequence: int) -> None:
        with self._changed:
            self._samplers.pop(sequence, None)

    def _now(self, sequence: int) -> SequenceSampler:
        return self._samplers.get(sequence, UNTOLD)
