"""What no kernel has heard of, and so must leave to others."""

from __future__ import annotations

import attrs

from truecluster.api import Description
from truecluster.nn import DecoderBlock, GatedMLP, LanguageHead, Linear, Norm

from ._host import HostDevice, Plain
from ._kernel_catalogue import HEADS, HIDDEN, decoder_block, linear, mlp, norm


class Foreign(Plain):
    """A format."""

    id = "no-such-format"


class Elsewhere(HostDevice):
    """A device that torch calls what it calls the host."""

    kind = "no-such-kind"


@attrs.frozen
class Strange(Description):
    """A leaf."""


class OtherLinear(Linear):
    """Computes something else, as far as a kernel knows."""


class OtherNorm(Norm):
    """Computes something else."""


class OtherHead(LanguageHead):
    """Computes something else."""


class OtherMLP(GatedMLP):
    """Computes something else."""


class OtherBlock(DecoderBlock):
    """Computes something else."""


def _strangers() -> tuple[Description, ...]:
    block, head = decoder_block(HEADS[1]), linear("head.output", HIDDEN, HIDDEN)
    odd = attrs.evolve(mlp(), activation="no-such-activation")
    other_mlp = OtherMLP(block.mlp.gate_up, block.mlp.down)
    other_norm = OtherNorm(block.mlp_norm.weight, block.mlp_norm.eps)
    return (
        Strange(),
        OtherLinear(head.weight),
        OtherNorm(norm("norm", HIDDEN).weight, 1e-6),
        OtherHead(norm("norm", HIDDEN), head),
        other_mlp,
        odd,
        OtherBlock(block.attention_norm, block.attention, block.mlp_norm, block.mlp),
        *(attrs.evolve(block, mlp=each) for each in (odd, other_mlp)),
        attrs.evolve(block, mlp_norm=other_norm),
    )


STRANGERS = _strangers()
"""Classes and activations that aren't those of ``nn``, alone and inside of blocks."""
