"""The part of the kernel contract that is about whole decoder blocks over paged state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pytest
import torch

from truecluster.api import DeviceContext, Kernel, Paged, Role, Rotary, Slot, WeightFormat
from truecluster.nn import (
    Attend,
    Attention,
    DecoderBlock,
    GatedMLP,
    Linear,
    Linears,
    Norm,
    Row,
    SequenceState,
)

from ._lowered import error, holding, lowered, target_of, threads

HIDDEN, INNER = 64, 160
TOKENS = 80
CUTS = ([80], [1] * 80, [33, 47], [5, 31, 1, 40, 3])
"""How a prompt is cut into steps; pages have 32 tokens."""


@attrs.frozen
class Heads:
    """Of a block: query heads, key heads, elements of each, of which so many are rotated."""

    queries: int
    keys: int
    dim: int
    rotated: int
    bias: bool
    sliding: int | None = None


VARIANTS = (
    Heads(4, 2, 16, 16, bias=True),
    Heads(7, 1, 8, 8, bias=False),
    Heads(2, 2, 40, 24, bias=True, sliding=37),
    Heads(3, 1, 10, 10, bias=False, sliding=1),
    Heads(2, 1, 64, 0, bias=True),
)


def decoder_block(heads: Heads) -> DecoderBlock:
    """A block of such heads."""

    def linear(key: str, out: int, width: int, bias: bool = False) -> Linear:
        own = Slot(f"block.{key}.bias", Role.BIAS, (out,)) if bias else None
        return Linear(Slot(f"block.{key}", Role.LINEAR, (out, width)), own)

    queries, keys = heads.queries * heads.dim, heads.keys * heads.dim
    qkv = (linear(key, out, HIDDEN, heads.bias) for key, out in (("q", queries), ("k", keys), ("v", keys)))
    return DecoderBlock(
        attention_norm=Norm(Slot("block.attention_norm", Role.NORM, (HIDDEN,)), 1e-6),
        attention=Attention(
            qkv=Linears(tuple(qkv)),
            output=linear("o", HIDDEN, queries),
            attend=Attend(heads.queries, heads.keys, heads.dim, heads.dim**-0.5),
            head_dim=heads.dim,
            rotary=rotary_of(heads) if heads.rotated else None,
        ),
        mlp_norm=Norm(Slot("block.mlp_norm", Role.NORM, (HIDDEN,)), 1e-5),
        mlp=GatedMLP(
            Linears((linear("gate", INNER, HIDDEN), linear("up", INNER, HIDDEN))), linear("down", HIDDEN, INNER)
        ),
    )


def rotary_of(heads: Heads) -> Rotary:
    """Of the part of each head that is rotated."""
    return Rotary(heads.rotated, 10000.0)


class Stage:
    """One block over state of its own, with two sequences whose pages lie mixed."""

    def __init__(self, run: Any, heads: Heads, device: DeviceContext) -> None:
        paged = Paged(dict.fromkeys(("k", "v"), (heads.keys, heads.dim)), sliding=heads.sliding)
        rotaries = [rotary_of(heads)] if heads.rotated else []
        self._state = SequenceState({0: paged}, rotaries, pages=8, sequences=2, device=device.id)
        self._run, self._device = run, device
        for sequence, pages in ((1, (6, 1, 4)), (2, (0, 7, 3))):
            self._state.open(sequence)
            for page in pages:
                self._state.extend(sequence, page)

    def step(self, *parts: tuple[int, int, torch.Tensor]) -> torch.Tensor:
        """Of (sequence, position, hidden): the hidden of all, in order."""
        batch = self._state.begin([Row(sequence, position, len(x)) for sequence, position, x in parts])
        hidden = self._device.upload(torch.cat([x for _, _, x in parts]))
        return self._device.download(self._run(hidden, batch, self._state.layers[0])).clone()

    def prompt(self, x: torch.Tensor, cuts: Iterable[int], sequence: int = 1) -> torch.Tensor:
        """A whole prompt in pieces."""
        found, position = [], 0
        for piece in torch.split(x, list(cuts)):
            found.append(self.step((sequence, position, piece)))
            position += len(piece)
        return torch.cat(found)


class BlockTests:
    """Blocks lowered with the kernel, whether it takes them whole or only their leaves."""

    def tolerance(self, format: WeightFormat) -> float:
        """Given by the contract."""
        raise NotImplementedError

    def block(self) -> DecoderBlock:
        """A block that kernels for blocks take."""
        return decoder_block(VARIANTS[0])

    def stage(self, kernels: list[Kernel], heads: Heads, format: WeightFormat, device: DeviceContext) -> Stage:
        """A stage of one block; no kernels: of the reference."""
        description = decoder_block(heads)
        return Stage(lowered(kernels, description, target_of(description, format, device)), heads, device)

    def agree(self, found: torch.Tensor, wanted: torch.Tensor, exactly: bool, format: WeightFormat) -> None:
        """Bit for bit where promised, else within the tolerance of the few linears in a row."""
        assert torch.equal(found, wanted) if exactly else error(found, wanted) <= 4 * self.tolerance(format), format.id

    def invariant(self, kernel: Kernel, heads: Heads, format: WeightFormat, device: DeviceContext) -> bool:
        """Whether the block's bits are the kernel's own promise."""
        description = decoder_block(heads)
        return kernel.invariant and kernel.accepts(description, target_of(description, format, device))

    @pytest.mark.parametrize("heads", VARIANTS, ids=str)
    def test_a_block_equals_the_reference(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext, heads: Heads
    ) -> None:
        for format in holding(formats, decoder_block(heads)):
            x, mine = hidden(TOKENS, 1), self.stage([kernel], heads, format, device)
            before = x.clone()
            found = mine.prompt(x, [TOKENS])
            wanted = self.stage([], heads, format, device).prompt(x, [TOKENS])
            self.agree(found, wanted, False, format)
            assert torch.equal(x, before), "the input was changed"

    @pytest.mark.parametrize("heads", VARIANTS, ids=str)
    def test_a_prompt_may_be_cut_anywhere(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext, heads: Heads
    ) -> None:
        for format in holding(formats, decoder_block(heads)):
            exactly = self.invariant(kernel, heads, format, device)
            x = hidden(TOKENS, 2)
            whole = self.stage([kernel], heads, format, device).prompt(x, [TOKENS])
            for number, cuts in enumerate(CUTS if exactly else CUTS[2:]):
                with threads(1 + number % 2):
                    self.agree(self.stage([kernel], heads, format, device).prompt(x, cuts), whole, exactly, format)

    @pytest.mark.parametrize("heads", VARIANTS, ids=str)
    def test_a_ragged_step_equals_one_sequence_at_a_time(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext, heads: Heads
    ) -> None:
        """A decode beside a prompt's chunk, then beside a sequence that is truncated and goes another way."""
        for format in holding(formats, decoder_block(heads)):
            exactly = self.invariant(kernel, heads, format, device)
            one, two, other = hidden(72, 3), hidden(40, 4) * 50, hidden(6, 5)
            mixed = self.stage([kernel], heads, format, device)
            mixed.step((1, 0, one[:70]))
            second = mixed.step((2, 0, two[:37]), (1, 70, one[70:71]))
            third = mixed.step((1, 71, one[71:]), (2, 20, other))
            alone = self.stage([kernel], heads, format, device).prompt(one, [70, 1, 1])
            straight = torch.cat([two[:20], other])
            beside = self.stage([kernel], heads, format, device).prompt(straight, [26], sequence=2)
            self.agree(torch.cat([second[-1:], third[:1]]), alone[70:], exactly, format)
            self.agree(second[:20], beside[:20], exactly, format)
            self.agree(third[1:], beside[20:], exactly, format)

    def test_what_is_not_a_number_stays_in_its_row(
        self, kernel: Kernel, formats: Sequence[WeightFormat], device: DeviceContext
    ) -> None:
        for format in formats:
            stage, x = self.stage([kernel], VARIANTS[0], format, device), hidden(4, 6)
            x[2, 3] = float("nan")
            found = stage.step((1, 0, x[:3]), (2, 0, x[3:]))
            assert not found[2].isfinite().any(), format.id
            assert found[[0, 1, 3]].isfinite().all(), format.id


def hidden(count: int, seed: int) -> torch.Tensor:
    """The same normally distributed fp32 rows every time."""
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed))
