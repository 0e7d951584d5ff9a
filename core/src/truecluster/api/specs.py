"""What a hook returns: frozen offers, one class per kind.

``target`` is ``"module:Name"``, imported only when the offer is chosen. ``api`` is the number of the kind's interface
that the plugin was written for; while it is 0 the interface may change with any release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs

NAME = re.compile(r"[A-Za-z0-9][\w.*-]*", re.ASCII)
OptionValue = bool | int | float | str
TYPES: Mapping[str, tuple[type[OptionValue], ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
}

FORM = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:|\*[^*/\\]+|FOLDER|ORG/NAME")


def _check_name(instance: object, field: Any, value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValueError(f"{field.name} {value!r} is not made of letters, digits, '.', '_', '-' and '*'")


def _check_texts(instance: Any, field: Any, value: object) -> None:
    """A str is a sequence of str too, each a letter: taken for a tuple, it would claim those."""
    if isinstance(value, str):
        raise ValueError(f"{field.name} of {instance.name!r} is {value!r}, no tuple of str; write ({value!r},)")
    if not isinstance(value, tuple) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"{field.name} of {instance.name!r} is {value!r}; give a tuple of str that aren't empty")


@attrs.frozen(kw_only=True)
class Spec:
    """What all offers have."""

    KIND: ClassVar[str]
    API: ClassVar[int] = 0

    name: str = attrs.field(validator=_check_name)
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
    model_types: tuple[str, ...] = attrs.field(validator=_check_texts)
    hosts: tuple[str, ...] = attrs.field(default=(), validator=_check_texts)


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

    name: str = attrs.field(validator=_check_name)
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
class Option:
    """What a user may give an offer as ``NAME:key=value``, and its constructor gets as a keyword argument.

    ``type`` is what the value is read as; a ``default`` of ``None`` stands for no value. ``help`` says the unit.
    """

    name: str = attrs.field()
    type: Literal["bool", "int", "float", "str"] = attrs.field(validator=attrs.validators.in_(tuple(TYPES)))
    default: OptionValue | None = attrs.field()
    help: str

    @name.validator
    def _is_a_keyword(self, attribute: object, value: str) -> None:
        if not value.isidentifier():
            raise ValueError(f"option {value!r} is no Python identifier, so no constructor can take it")

    @default.validator
    def _is_of_the_type(self, attribute: object, value: object) -> None:
        if value is not None and type(value) not in TYPES[self.type]:
            raise ValueError(f"default {value!r} of option {self.name!r} is no {self.type}")


@attrs.frozen(kw_only=True)
class PlannerSpec(Spec):
    """Target: a `Planner`, made with a keyword argument for each of the ``options``."""

    KIND = "planner"
    options: tuple[Option, ...] = attrs.field(default=(), converter=tuple)

    @options.validator
    def _differ(self, attribute: object, value: tuple[Option, ...]) -> None:
        names = [option.name for option in value]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name!r} declares an option twice: {', '.join(names)}")


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
    forms: tuple[str, ...] = attrs.field(validator=_check_texts)
    markers: tuple[str, ...] = attrs.field(default=(), validator=_check_texts)

    @forms.validator
    def _can_be_met(self, attribute: object, value: tuple[str, ...]) -> None:
        known = "a prefix such as 'pypi:', an ending such as '*.gguf', 'FOLDER' or 'ORG/NAME'"
        for form in value:
            if not FORM.fullmatch(form):
                raise ValueError(f"form {form!r} of {self.name!r} fits no reference; give {known}")
        if not value:
            raise ValueError(f"{self.name!r} has no forms, so it opens nothing; give {known}")
        if "FOLDER" in value and not self.markers:
            raise ValueError(f"{self.name!r} opens folders and names no markers; give the files that they have")


@attrs.frozen(kw_only=True)
class KernelSpec(Spec):
    """Target: a `Kernel`. Of those that accept a description the highest ``rank`` wins; equal ranks are a conflict."""

    KIND = "kernel"
    rank: int
