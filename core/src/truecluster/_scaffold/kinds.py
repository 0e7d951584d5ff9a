"""Which kinds of plugins there are templates for, and what their packages need beside the core."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Kind:
    """``what`` says in words what the working example is; ``needs`` are dependencies of the package, as pip reads them.

    ``checked`` are those of its checks, beside the kit. ``given``: the package names contracts of its own, since the
    kind's suite needs more than the name of an offer.
    """

    what: str
    needs: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    given: bool = False


TORCH = "torch>=2.6"
KINDS: Mapping[str, Kind] = {
    "architecture": Kind("a decoder like Llama's", ("attrs>=23.2", TORCH), checked=("transformers>=5",)),
    "quantizer": Kind("8 bits a weight with a scale per row", ("numpy>=1.26", TORCH), given=True),
    "transport": Kind("edges over TCP sockets", ("attrs>=23.2", TORCH)),
    "planner": Kind("the nodes with most memory are filled first"),
    "device": Kind("the processor as a device of its own", (TORCH,)),
    "checkpoint": Kind("one file with a JSON header and mapped tensors", ("attrs>=23.2", TORCH), given=True),
    "kernel": Kind("linears over fp16 weights that are kept unpacked", (TORCH,)),
}
"""Kind → its template; the folder of the same name in ``templates`` holds it."""
