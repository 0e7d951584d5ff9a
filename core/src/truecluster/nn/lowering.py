"""From descriptions to callables: kernels take what they accept, top-down; the reference takes the leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from truecluster.api import Description, Kernel, PluginError, Slot, Target

from .reference import ReferenceKernel


@attrs.frozen(eq=False)
class RankedKernel:
    """A kernel with the name and rank that its spec gave it."""

    name: str
    rank: int
    kernel: Kernel


REFERENCE = RankedKernel("reference", -(1 << 31), ReferenceKernel())


class Lowering:
    """Decides which kernel takes which description, and binds a network once the handles are there."""

    def __init__(self, target: Target, kernels: Sequence[RankedKernel] = ()) -> None:
        self.target = target
        self._kernels = sorted([*kernels, REFERENCE], key=lambda k: -k.rank)

    def choose(self, description: Description) -> RankedKernel | None:
        """The kernel that takes the whole description, ``None`` if its children are lowered instead.

        Raises `PluginError` where two kernels of the same rank accept it.
        """
        takers = [k for k in self._kernels if k.kernel.accepts(description, self.target)]
        if len(takers) > 1 and takers[0].rank == takers[1].rank:
            raise PluginError(
                f"kernels {takers[0].name!r} and {takers[1].name!r} both take {type(description).__name__} at rank "
                f"{takers[0].rank}; uninstall one of them"
            )
        return takers[0] if takers else None

    def readers(self, description: Description) -> dict[Slot, tuple[RankedKernel, ...]]:
        """Each slot below ``description`` → the kernels that need a handle of it."""
        found: dict[Slot, tuple[RankedKernel, ...]] = {}
        for node, kernel in self.takers(description):
            for slot in node.slots():
                found[slot] = tuple(dict.fromkeys((*found.get(slot, ()), kernel)))
        return found

    def bind(self, description: Description, handles: Mapping[tuple[str, str], Any]) -> Callable[..., Any]:
        """The lowered network; ``handles`` are by (kernel name, slot key), as `readers` asked."""
        chosen = self.choose(description)
        if chosen is not None:
            mine = {slot.key: handles[chosen.name, slot.key] for slot in description.slots()}
            return chosen.kernel.bind(description, mine, self.target)
        lowered = {name: self._each(child, lambda d: self.bind(d, handles)) for name, child in self._inner(description)}
        return attrs.evolve(description, **lowered)  # type: ignore[misc]

    def takers(self, description: Description) -> list[tuple[Description, RankedKernel]]:
        """What is taken as a whole below ``description``, and by which kernel, in order."""
        chosen = self.choose(description)
        if chosen is not None:
            return [(description, chosen)]
        nested: list[tuple[Description, RankedKernel]] = []
        for _, child in self._inner(description):
            self._each(child, lambda d: nested.extend(self.takers(d)))
        return nested

    def _inner(self, description: Description) -> list[tuple[str, Any]]:
        inner, name = list(description.children().items()), type(description).__name__
        if not inner:
            raise PluginError(f"no kernel takes {name}, a leaf that the reference doesn't know")
        own = set(description.slots()) - {slot for _, child in inner for slot in _slots_of(child)}
        if own:
            keys = ", ".join(sorted(repr(slot.key) for slot in own))
            raise PluginError(f"no kernel takes {name}, which reads {keys} itself; its children don't")
        return inner

    @staticmethod
    def _each(child: Any, do: Callable[[Description], Any]) -> Any:
        return tuple(map(do, child)) if isinstance(child, tuple) else do(child)


def _slots_of(child: Description | tuple[Description, ...]) -> list[Slot]:
    return [slot for one in (child if isinstance(child, tuple) else (child,)) for slot in one.slots()]
