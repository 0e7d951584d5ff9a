"""Whether an assignment is a stage of a model that this node knows, before anything is sized by it."""

from __future__ import annotations

from truecluster._registry import Registry
from truecluster._wire import messages as wire
from truecluster._wire.limits import MAX_ROWS, MAX_TOKENS
from truecluster.api import Architecture, NodeError
from truecluster.nn import PAGE


def check_assignment(assignment: wire.Assignment, registry: Registry) -> None:
    """Raises `NodeError` naming what doesn't fit, and what the registry raises for a name that it doesn't know."""
    architecture: Architecture = registry.resolve("architecture", assignment.architecture)()
    config = architecture.config(assignment.config)
    span, units = assignment.span, assignment.units
    _within("its last block", span.stop, config.layers)
    _within("its blocks", span.stop - span.start, len(units))
    _within("sequences", assignment.sequences, MAX_ROWS)
    _within("tokens a step", assignment.max_step_tokens, MAX_TOKENS)
    _within("pages", assignment.pages, assignment.sequences * -(-config.context // PAGE))
    slots = {slot.key: slot.shape for part in span.parts() for slot in architecture.slots(config, part)}
    if slots != {unit.key: unit.shape for unit in units}:
        raise NodeError(f"the assignment's weights are not those of {span}: {_difference(slots, units)}")
    for unit in units:
        due = registry.format(unit.format).wire_bytes(unit.shape)
        if unit.nbytes != due:
            raise NodeError(f"{unit.key} of {unit.nbytes} bytes; in {unit.format} it has {due}")


def _within(what: str, number: int, most: int) -> None:
    if number > most:
        raise NodeError(f"an assignment of {number} for {what}, at most {most} can be")


def _difference(slots: dict[str, tuple[int, ...]], units: tuple[wire.Unit, ...]) -> str:
    given = {unit.key: unit.shape for unit in units}
    key = next(key for key in {**slots, **given} if slots.get(key) != given.get(key))
    return f"{key[:64]!r} is {given.get(key, 'missing')}, and should be {slots.get(key, 'missing')}"
