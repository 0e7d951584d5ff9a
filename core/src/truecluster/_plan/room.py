"""How much sequence state a run is to have: what the user said, and what that means for a model."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from truecluster.api import DType, ModelProfile, PlanError, RequestError

TOKENS_EACH = 1024
"""Tokens of state for every sequence beside the one that has the whole context."""
LEAST_CONTEXT = 1024
"""A context that nobody typed is reduced to this and no further, in tokens."""
GB = 10**9


@attrs.frozen(kw_only=True)
class Room:
    """What the user said. ``context`` in tokens, ``None`` for as much of the model's as fits; sizes in bytes.

    ``kv_bytes`` bounds the state of all nodes together; ``reserve`` is the share of each node's free memory that is
    left alone; ``unknown`` is what a node is taken to have that doesn't know its memory.
    """

    context: int | None = None
    sequences: int = 8
    kv_bytes: int | None = None
    reserve: float = 0.1
    unknown: int | None = None


@attrs.frozen(kw_only=True)
class StateSize:
    """What every stage holds: pages of ``page_tokens``, and sequences at once, each of at most ``context`` tokens."""

    pages: int
    page_tokens: int
    sequences: int
    context: int

    def of(self, pages: int) -> StateSize:
        """The same with so many pages."""
        return attrs.evolve(self, pages=pages, context=min(self.context, pages * self.page_tokens))


def no_bytes(tokens: int) -> int:
    """Of attention in a kernel that holds no scores."""
    return 0


@attrs.frozen(kw_only=True)
class Measured:
    """A model's bytes without state, and what state adds to each of its parts.

    A page of ``page_tokens`` has ``page_elements`` in the ``compute`` dtype, and a sequence has ``sequence_bytes``.
    ``context`` is the model's, in tokens. ``attention`` says how many bytes a stage with blocks takes to attend over so
    many tokens, ``attention_elsewhere`` where it is on a device of another kind than the coordinator's.
    """

    stateless: ModelProfile
    page_elements: tuple[int, ...]
    sequence_bytes: tuple[int, ...]
    compute: DType
    context: int
    page_tokens: int
    attention: Callable[[int], int] = no_bytes
    attention_elsewhere: Callable[[int], int] = no_bytes

    def sized(self, size: StateSize) -> ModelProfile:
        """The profile with state of that size."""
        sizes = zip(self.stateless.parts, self.page_elements, self.sequence_bytes, strict=True)
        parts = tuple(
            attrs.evolve(part, state=size.pages * elements * self.compute.itemsize + size.sequences * each)
            for part, elements, each in sizes
        )
        return attrs.evolve(self.stateless, parts=parts, attention=self.attention(size.context))

    def pages(self, tokens: int) -> int:
        """How many pages hold so many tokens."""
        return -(-tokens // self.page_tokens)


def wanted_size(measured: Measured, room: Room) -> StateSize:
    """What to aim at. Raises `RequestError` for more than the model has, `PlanError` where the budget is too small."""
    if room.context is not None and room.context > measured.context:
        name, most = measured.stateless.name, measured.context
        raise RequestError(
            f"--context {room.context} is more than the {most} tokens that {name} has; give at most {most}"
        )
    context = room.context or measured.context
    if room.kv_bytes is not None:
        return _within(measured, room, context, room.kv_bytes)
    pages = measured.pages(context) + (room.sequences - 1) * measured.pages(min(TOKENS_EACH, context))
    return StateSize(pages=pages, page_tokens=measured.page_tokens, sequences=room.sequences, context=context)


def least_context(measured: Measured, room: Room) -> int:
    """Tokens of context under which a run makes no sense."""
    return room.context or min(LEAST_CONTEXT, measured.context)


def _within(measured: Measured, room: Room, context: int, budget: int) -> StateSize:
    """As many pages as the budget pays for, and the sequences can use."""
    page = sum(measured.page_elements) * measured.compute.itemsize
    each = room.sequences * sum(measured.sequence_bytes)
    usable = room.sequences * measured.pages(context)
    pages = min(usable, max(0, budget - each) // page) if page else usable
    least = least_context(measured, room)
    if pages < measured.pages(least) or budget < each:
        raise PlanError(
            f"--kv-memory-gb {budget / GB:g} is {budget:,} bytes; {least:,} tokens of context and {room.sequences} "
            f"sequences need {measured.pages(least) * page + each:,}: give more, or less --context or --max-sequences"
        )
    whole = StateSize(pages=0, page_tokens=measured.page_tokens, sequences=room.sequences, context=context)
    return whole.of(pages)
