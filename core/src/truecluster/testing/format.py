"""The contract of weight formats."""

from __future__ import annotations

import re

import torch

from truecluster.api import PluginError, WeightFormat

from ._contract import Installed
from ._format_packing import PackingRules
from ._format_reading import ReadingRules
from ._values import Weights, over_weights
from .rules import refusal, require


class FormatContract(PackingRules, ReadingRules):
    """Say what the format is able to do. Where it is only read, give ``sample`` and ``oracle`` too."""

    def test_the_id_names_the_member(self, installed: Installed, format: WeightFormat, member: str) -> None:
        """``from_id`` gives the member that is asked for: its id is the family's name, or that, a dot and more."""
        require(format.id == member, f"from_id({member!r}).id is {member!r}", format.id)
        family = format.id.partition(".")[0]
        require(family == installed.spec.name, f"an id of the family {installed.spec.name!r}", format.id)

    def test_an_unknown_member_is_refused(self, format: WeightFormat) -> None:
        """``from_id`` raises `PluginError`, which names those that exist, for any other spelling of a member."""
        for unknown in misspelt(format.id):
            with refusal(PluginError, re.escape(format.id), id=unknown):
                type(format).from_id(unknown)

    @over_weights()
    def test_bytes_are_as_many_as_promised(self, format: WeightFormat, weights: Weights) -> None:
        """A `Packed` has the format's id, the tensor's shape, and ``wire_bytes(shape)`` flat uint8, to the byte."""
        weights = self.fitting(weights)
        packed, promised = self.packed(format, weights), format.wire_bytes(weights.shape)
        named = (packed.format, packed.shape)
        require(named == (format.id, weights.shape), f"format and shape {(format.id, weights.shape)}", named)
        lies = (packed.data.dtype, packed.data.ndim, packed.data.is_contiguous())
        require(lies == (torch.uint8, 1, True), "flat, contiguous uint8", lies, weights=weights)
        found = packed.data.numel()
        require(found == promised, f"{promised} bytes, as wire_bytes says", f"{found} bytes", weights=weights)

    def test_bytes_of_large_matrices_are_counted(self, format: WeightFormat) -> None:
        """``wire_bytes`` is a whole number that grows with the rows, also for billions of elements."""
        rows = (1 << 17, 1 << 18, (1 << 18) + 1, 1 << 20)
        shapes = [self.fitting(Weights(count, 1 << 14)).shape for count in rows]
        counts = [format.wire_bytes(shape) for shape in shapes]
        rising = all(isinstance(count, int) for count in counts) and sorted({0, *counts}) == [0, *counts]
        require(rising, "whole numbers above 0, each larger than the one before", counts, shapes=shapes)

    @over_weights()
    def test_shapes_that_it_can_not_hold_are_refused(self, format: WeightFormat, weights: Weights) -> None:
        """``wire_bytes`` and ``pack`` raise `PluginError` where a shape can't be held; of three axes both or none."""
        shapes = self.refused(weights.columns)
        deep = (2, 3, self.fitting(weights).columns)
        try:
            promised = format.wire_bytes(deep)
        except PluginError:
            shapes.append(deep)
        else:
            if self.packs:
                packed = format.pack(torch.ones(deep))
                came, expected = (packed.data.numel(), packed.shape), (promised, deep)
                require(came == expected, f"as many bytes as wire_bytes says, and the shape: {expected}", came)
        for shape in shapes:
            with refusal(PluginError, shape=shape):
                format.wire_bytes(shape)
            with refusal(PluginError, shape=shape):
                format.pack(torch.ones(shape))

    def refused(self, columns: int) -> list[tuple[int, ...]]:
        """Shapes of about that width that are declared as none that the format holds."""
        odd = columns if columns % self.multiple else columns + 1
        vectors: list[tuple[int, ...]] = [] if self.vectors else [(columns,)]
        return vectors if self.multiple == 1 else [*vectors, (2, odd)]


def misspelt(id: str) -> list[str]:
    """Ids that are no member's, if that one is; what Python takes for the same number among them."""
    family, dot, member = id.partition(".")
    eastern = member.translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
    padded, joined = re.sub(r"(\d+)", r"0\1", member), re.sub(r"(\d)(?=\d)", r"\1_", member)
    others = (padded, joined, eastern, re.sub(r"\d+", "x", member), f"{member} ", member.upper())
    changed = [f"{family}{dot}{other}" for other in dict.fromkeys(others) if member not in ("", other)]
    return [f"{id}.no-such-member", f"{id}.", *changed]
