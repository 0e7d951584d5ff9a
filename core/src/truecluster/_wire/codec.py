"""Envelopes: a message to msgpack and back, strictly.

``{"type", "seq", "payload"}``, with ``request_id`` and ``sections`` (the byte counts of what follows raw) where there
are any. Types are exact, keys are neither missing, unknown nor double, numbers are finite; whatever is wrong with an
envelope becomes an `EdgeBroken` naming the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

import attrs
import cattrs
import msgpack  # type: ignore[import-untyped]
from attrs.validators import deep_iterable, gt, le, max_len, optional
from cattrs.v import format_exception

from truecluster.api import EdgeBroken

from .limits import MAX_DEPTH, MAX_ENVELOPE, MAX_SECTION, MAX_TEXT
from .messages import TYPES, Message, sections

_NAMES = {cls: name for name, cls in TYPES.items()}


@attrs.frozen(kw_only=True)
class Envelope:
    """What surrounds a payload. ``seq`` counts the messages of one direction of a connection from 1."""

    type: str
    seq: int = attrs.field(validator=gt(0))
    payload: dict[str, Any]
    request_id: str | None = attrs.field(default=None, validator=optional(max_len(256)))
    sections: tuple[int, ...] = attrs.field(default=(), validator=deep_iterable([gt(0), le(MAX_SECTION)]))


def encode(message: Message, seq: int, sizes: Sequence[int] = (), request_id: str | None = None) -> bytes:
    """The envelope's bytes. Raises `EdgeBroken` where the message is larger than a receiver would take."""
    envelope: dict[str, Any] = {"type": _NAMES[type(message)], "seq": seq, "payload": _converter.unstructure(message)}
    if request_id is not None:
        envelope["request_id"] = request_id
    if sizes:
        envelope["sections"] = list(sizes)
    data: bytes = msgpack.packb(envelope)
    if len(data) > MAX_ENVELOPE:
        raise EdgeBroken(f"a {envelope['type']} message of {len(data)} bytes; at most {MAX_ENVELOPE} can be sent")
    return data


def decode(data: bytes | bytearray | memoryview) -> tuple[Envelope, Message]:
    """The one message that ``data`` holds. Raises `EdgeBroken`."""
    try:
        envelope = _converter.structure(_unpack(data), Envelope)
        message: Message = _converter.structure(envelope.payload, _class_of(envelope))
        _check_sections(envelope, message)
    except Exception as error:  # msgpack alone raises seven unrelated kinds
        raise EdgeBroken(f"a control message breaks the protocol: {_reason(error)}") from error
    return envelope, message


def _unpack(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    raw = msgpack.unpackb(data, object_pairs_hook=_unique, ext_hook=_refuse_extension)
    if type(raw) is not dict:
        raise ValueError(f"expected a map, not {type(raw).__name__}")
    return raw


def _class_of(envelope: Envelope) -> type[Message]:
    if envelope.type not in TYPES:
        raise ValueError(f"unknown message type {envelope.type[:64]!r}; known are {', '.join(TYPES)}")
    return TYPES[envelope.type]


def _check_sections(envelope: Envelope, message: Message) -> None:
    if len(envelope.sections) != sections(message):
        raise ValueError(f"{envelope.type} with {len(envelope.sections)} raw sections, not {sections(message)}")


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one map")
    return found


def _refuse_extension(code: int, data: bytes) -> None:
    raise ValueError(f"msgpack extension type {code} is not part of the protocol")


def _reason(error: Exception) -> str:
    if isinstance(error, cattrs.BaseValidationError):
        return "; ".join(cattrs.transform_error(error, format_exception=_explain)[:3])[:500]
    return f"{type(error).__name__}: {error}"[:500]


def _explain(error: BaseException, cls: type | None) -> str:
    if isinstance(error, AttributeError):  # cattrs asks whatever it was given for its keys
        return "expected a map"
    return str(error.args[0]) if isinstance(error, ValueError) else format_exception(error, cls)


def _exactly(cls: type) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not cls:
            raise ValueError(f"expected {cls.__name__}, not {type(value).__name__}")
        return value

    return check


def _finite(value: Any, _: Any = float) -> float:
    if type(value) not in (float, int) or not math.isfinite(value):
        raise ValueError("expected a finite number")
    return float(value)


def _text(value: Any, cls: type[str] = str) -> str:
    """Text, or the member of a text enum, which cattrs brings here as a subclass of str."""
    if type(value) is not str or len(value) > MAX_TEXT:
        raise ValueError(f"expected text of at most {MAX_TEXT} characters, not {type(value).__name__}")
    return cls(value)


def _tuple(value: Any, cls: Any) -> tuple[Any, ...]:
    if type(value) is not list:
        raise ValueError(f"expected an array, not {type(value).__name__}")
    item = get_args(cls)[0]
    return tuple(_converter.structure(each, item) for each in value)


def _mapping(value: Any, cls: Any) -> dict[str, Any]:
    """A map of text, or of whatever JSON can hold: the two kinds that messages have."""
    if type(value) is not dict:
        raise ValueError(f"expected a map, not {type(value).__name__}")
    read = _plain if get_args(cls)[1] is Any else _text
    return {_text(key): read(each) for key, each in value.items()}


def _plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A value that JSON could hold, not nested deeper than ``depth``."""
    if depth == 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if type(value) is dict:
        return {_text(key): _plain(each, depth - 1) for key, each in value.items()}
    if type(value) is list:
        return [_plain(each, depth - 1) for each in value]
    if type(value) is float:
        return _finite(value)
    if value is None or type(value) in (bool, int, str):
        return value
    raise ValueError(f"expected a value that JSON can hold, not {type(value).__name__}")


def _is(cls: Any, origin: object) -> bool:
    return get_origin(cls) is origin


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for exact in (int, bool, bytes):
        converter.register_structure_hook(exact, _exactly(exact))
    converter.register_structure_hook(float, _finite)
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook_func(lambda cls: _is(cls, dict), _exactly(dict))
    converter.register_structure_hook_func(lambda cls: _is(cls, tuple), _tuple)
    converter.register_structure_hook_func(lambda cls: _is(cls, Mapping), _mapping)
    return converter


_converter = _make_converter()
