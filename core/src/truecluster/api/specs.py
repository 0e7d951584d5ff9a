"""What a hook returns: frozen offers, one class per kind.

``target`` is ``"module:Name"``, imported only when the offer is chosen. ``api`` is the number of the kind's interface
that the plugin was written for; while it is 0 the interface may change with any release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs


@attrs.frozen(kw_only=True)
class Spec:
    """What all offers have."""

    KIND: ClassVar[str]
    API: ClassVar[int] = 0

    name: str
    target: str = attrs.field()
    summary: str = ""
    api: int = 0

    @target.validator
    def _names_an_object(self, attribute: object, value: str) -> None:
        module, _, name = value.partition(":")
        if not (module and name):
            raise ValueError(f"target {value!r} of {self.name!r} is not of the form 'package.module:Name'")


@attrs.frozen(kw_only=True)
class ArchitectureSpec(Spec):
    """Target: an `Architecture`.

    ``model_types`` choose it without being asked; ``hosts`` are those it serves exactly when named with ``--arch``.
    """

    KIND = "architecture"
    model_types: tuple[str, ...]
    hosts: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class FormatSpec(Spec):
    """Target: a `WeightFormat`; ``name`` is the family."""

    KIND = "format"


@attrs.frozen(kw_only=True)
class QuantizerSpec:
    """A recipe: which format each role gets, by `Role` value; ``keep`` leaves the checkpoint's own. Pure data.

    A recipe whose ``name`` ends in ``.*`` is a family: ``int4.g128`` chooses ``int4.*``, and ``*`` in a format id
    stands for the rest of the name.
    """

    KIND: ClassVar[str] = "quantizer"
    API: ClassVar[int] = 0

    name: str
    roles: Mapping[str, str]
    summary: str = ""
    api: int = 0


@attrs.frozen(kw_only=True)
class TransportSpec(Spec):
    """Target: a `StreamTransport`, an `EdgeTransport`, or both, as ``streams`` and ``edges`` say.

    ``relays``: its edges can be relayed by a third process.
    """

    KIND = "transport"
    streams: bool = False
    edges: bool = False
    relays: bool = False
    local: bool = False
    """Reaches only this process, so nodes are hosted in it."""


@attrs.frozen(kw_only=True)
class PlannerSpec(Spec):
    """Target: a `Planner`."""

    KIND = "planner"


@attrs.frozen(kw_only=True)
class DeviceSpec(Spec):
    """Target: a `DeviceBackend`; ``rank`` orders ``--device auto``, highest first."""

    KIND = "device"
    rank: int = 0


@attrs.frozen(kw_only=True)
class CheckpointSpec(Spec):
    """Target: a `CheckpointSource`; ``forms`` are the references that it opens.

    A form is a prefix (``pypi:``), an ending (``*.gguf``), ``FOLDER`` (a folder that has one of ``markers``), or
    ``ORG/NAME`` (what is left when nothing else fits).
    """

    KIND = "checkpoint"
    forms: tuple[str, ...]
    markers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class KernelSpec(Spec):
    """Target: a `Kernel`. Of those that accept a description the highest ``rank`` wins; equal ranks are a conflict."""

    KIND = "kernel"
    rank: int
