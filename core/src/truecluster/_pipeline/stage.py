"""A stage: a span's lowered network with its sequence state, and one step through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import attrs
import torch

from truecluster._wire.steps import Kind, StepHeader, relabel
from truecluster.api import DeviceContext, DType, Span, StateError
from truecluster.nn import SequenceState, torch_dtype

from .answers import Answer, pack
from .sampling import SampleTable, SequenceSampler

_HIDDEN_STATE, _TOKEN = Kind.HIDDEN_STATE, Kind.TOKEN  # an enum searches for the member that it is asked for


@attrs.frozen(kw_only=True, eq=False)
class StageShape:
    """What a stage takes and gives: known from the plan, checked against every header.

    ``inbound`` and ``outbound`` are the dtypes of what its edges carry, int32 for tokens.
    """

    span: Span
    layers: int
    hidden: int
    vocab: int
    context: int
    residual: DType
    inbound: DType
    outbound: DType
    max_tokens: int
    sequences: int

    @cached_property
    def takes_ids(self) -> bool:
        return self.span.embed

    @cached_property
    def takes_picked(self) -> bool:
        """Whether only the rows that need logits come in (a head on its own)."""
        return self.span.start == self.layers and not self.span.embed

    @cached_property
    def gives_picked(self) -> bool:
        """Whether only the rows that need logits go out."""
        return self.span.stop == self.layers

    @cached_property
    def gives_tokens(self) -> bool:
        return self.span.head


class Stage:
    """Runs steps, one at a time, in whatever thread calls `execute`."""

    def __init__(
        self,
        shape: StageShape,
        parts: Sequence[Callable[..., Any]],
        state: SequenceState,
        device: DeviceContext,
        samples: SampleTable,
    ) -> None:
        self.shape = shape
        self.state = state
        self.device = device
        self.samples = samples
        rest = list(parts)
        self._embed = rest.pop(0) if shape.span.embed else None
        self._head = rest.pop() if shape.span.head else None
        self._blocks = [(block, state.layers[layer]) for layer, block in enumerate(rest, shape.span.start)]
        self._residual, self._outbound = torch_dtype(shape.residual), torch_dtype(shape.outbound)

    def execute(self, header: StepHeader, payload: torch.Tensor) -> list[torch.Tensor]:
        """One step: ids or hidden rows in, hidden rows or an `Answer`'s tensors out, on the host.

        Raises `StateError` where the step contradicts the state or names a token that doesn't exist, `EdgeTimeout`
        where its sampling update is missing.
        """
        with self.device.turn():
            self._apply(header)
            found = self._compute(header, payload)
        return self._sample(self._head, found, header) if self._head is not None else [found]

    def _compute(self, header: StepHeader, payload: torch.Tensor) -> torch.Tensor:
        """Hidden rows, in the dtype of the outbound edge on the host unless there is a head to take them."""
        if not header.rows:  # the step only releases sequences
            return torch.empty(0, self.shape.hidden, dtype=self._outbound)
        x = self.device.upload(payload)
        if self._embed is None:
            x = cast(x, self._residual)
        else:
            check_ids(payload, self.shape.vocab)
            x = self._embed(x)
        if self._blocks:
            batch = self.state.begin(header.rows)
            for block, state in self._blocks:
                x = block(x, batch, state)
        if self.shape.gives_picked and not self.shape.takes_picked:
            x = pick(x, header)
        return x if self._head is not None else self.device.download(cast(x, self._outbound))

    def _apply(self, header: StepHeader) -> None:
        for sequence in header.released:
            self.state.release(sequence)
            self.samples.forget(sequence)
        for sequence, length in header.opened:
            self.state.open(sequence, length)
        for sequence, page in header.pages:
            self.state.extend(sequence, page)

    def _sample(self, head: Callable[..., Any], hidden: torch.Tensor, header: StepHeader) -> list[torch.Tensor]:
        """A token for every row of ``hidden``; no more logits at once than the plan has memory for."""
        answer = Answer(ids=[])
        samplings = self._samplings(header)
        for first in range(0, hidden.shape[0], self.shape.sequences):
            with self.device.turn():
                logits = self.device.download(head(hidden[first : first + self.shape.sequences]))
            rows = logits.unbind()
            for row, (sampler, position) in zip(rows, islice(samplings, len(rows)), strict=True):
                token, logprobs = sampler.sample(row, position)
                answer.ids.append(token)
                answer.logprobs.append(logprobs)
        return pack(answer)

    def _samplings(self, header: StepHeader) -> Iterator[tuple[SequenceSampler, int]]:
        """Of each row that logits are wanted of: who samples the token behind it, and which position that one has."""
        for row in header.rows:
            if row.n_logits:
                sampler = self.samples.of(row.sequence, row.sample)
                after = row.position + row.n_tokens
                yield from ((sampler, position) for position in range(after - row.n_logits + 1, after + 1))


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``x`` in ``dtype``: the same tensor where it is."""
    # torch would find that out too, in 25 µs where weights have emptied the caches
    return x if x.dtype is dtype else x.to(dtype)


def check_ids(ids: torch.Tensor, vocab: int) -> None:
    """Raises `StateError` for an id that isn't in the vocabulary."""
    wrong = [id for id in ids.tolist() if not 0 <= id < vocab]
    if wrong:
        raise StateError(f"token {wrong[0]} is outside the model's vocabulary, 0..{vocab - 1}")


def pick(hidden: torch.Tensor, header: StepHeader) -> torch.Tensor:
    """The last ``n_logits`` tokens of each row of a step, ``[n_logits, hidden]``."""
    index: list[int] = []
    after = 0
    for row in header.rows:
        after += row.n_tokens
        index.extend(range(after - row.n_logits, after))
    if len(index) == hidden.shape[0]:
        return hidden
    return hidden[torch.tensor(index, dtype=torch.long, device=hidden.device)]


def answer(shape: StageShape, header: StepHeader, data: bytes, results: Sequence[torch.Tensor]) -> bytes:
    """The header under which a stage sends on what it made of a step that came as ``header``, ``data`` in bytes."""
    count = results[0].shape[0]  # len() of a tensor is a Python function of torch's, five times as long
    if shape.gives_tokens:
        width = results[1].shape[1] - 1 if len(results) > 1 else 0
        return relabel(data, header, kind=_TOKEN, count=count, width=width, logprobs=len(results) > 1)
    kind = _HIDDEN_STATE if shape.gives_picked else header.kind
    return relabel(data, header, kind=kind, count=count, width=shape.hidden, dtype=shape.outbound)


def payload_dtype(shape: StageShape) -> torch.dtype:
    return torch_dtype(shape.inbound)
