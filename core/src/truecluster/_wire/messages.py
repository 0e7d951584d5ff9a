"""The control messages: a closed set of frozen classes. Their field names are the keys on the wire.

Sizes are bytes, times seconds, hashes sha256 in hex. Text and numbers are checked on arrival by the codec; what a
message means is its receiver's to check.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

import attrs
from attrs.validators import deep_iterable, ge, gt, le, matches_re, max_len, optional

from truecluster.api import DeviceInfo, DType, Dtypes, Role, Span

from . import limits

_HASH = matches_re(r"[0-9a-f]{64}")


_FP32 = Dtypes(DType.FP32, DType.FP32)


def _amount() -> Any:
    return attrs.field(validator=ge(0))


def _fp32_first(hello: object, field: Any, dtypes: tuple[Dtypes, ...]) -> None:
    if not dtypes or dtypes[0] != _FP32:
        raise ValueError(f"{field.name} must begin with fp32")


class FaultReason(str, Enum):
    """Why a stage gave up."""

    LOAD_FAILED = "LOAD_FAILED"
    INFERENCE_ERROR = "INFERENCE_ERROR"
    SEQUENCE_VIOLATION = "SEQUENCE_VIOLATION"
    EDGE_LOST = "EDGE_LOST"
    EDGE_UNREACHABLE = "EDGE_UNREACHABLE"
    TIMEOUT = "TIMEOUT"


class StopReason(str, Enum):
    """Why a run is over."""

    COMPLETED = "COMPLETED"
    FAULTED = "FAULTED"
    SHUTDOWN = "SHUTDOWN"
    REPLACED = "REPLACED"


@attrs.frozen(kw_only=True)
class Hello:
    """Node → coordinator, first. ``compat`` holds, per ``kind/name``, the version of what the node would execute.

    ``dtypes`` are what its selected device does at its own speed, fp32 first. ``instance`` is random and stays with a
    process: with it, a connection takes the place of an earlier one of the same node. ``node_id`` is only a wish where
    ``any_id`` says so. ``edge_host`` is where neighbours can dial it, ``None`` where they can't. ``speed`` is
    measured, in bytes of weights a second, ``None`` where it couldn't be.
    """

    node_id: str = attrs.field(validator=matches_re(r"[\x21-\x7e]{1,255}"))
    hostname: str
    truecluster: str
    python_version: str
    torch_version: str
    platform: str
    devices: tuple[DeviceInfo, ...]
    selected_device: str
    dtypes: tuple[Dtypes, ...] = attrs.field(default=(_FP32,), validator=_fp32_first)
    max_memory_bytes: int | None = attrs.field(default=None, validator=optional(gt(0)))
    speed: float | None = attrs.field(default=None, validator=optional(gt(0)))
    edge_host: str | None = None
    compat: Mapping[str, str] = attrs.field(factory=dict)
    pid: int = _amount()
    instance: bytes = attrs.field(factory=lambda: secrets.token_bytes(16))
    any_id: bool = False


@attrs.frozen(kw_only=True)
class HelloAck:
    """The node is in, as ``node_id``. ``session`` fences off its earlier connections; ``bulk_ticket`` lets its bulk
    connection in.
    """

    node_id: str
    session: int = _amount()
    coordinator_version: str
    heartbeat_s: float = attrs.field(validator=gt(0))
    bulk_ticket: bytes


@attrs.frozen(kw_only=True)
class Unit:
    """One tensor of an assignment: slot, packed format, content hash, and its ``nbytes`` when packed."""

    key: str
    role: Role
    shape: tuple[int, ...] = attrs.field(validator=deep_iterable(gt(0)))
    format: str
    hash: str = attrs.field(validator=_HASH)
    nbytes: int = _amount()


@attrs.frozen(kw_only=True)
class Assignment:
    """Coordinator → node: host this stage of this run (ProvisionStage).

    ``config`` is the model's ``config.json`` as resolved; ``pages`` and ``sequences`` size the state; the edges are
    named, and opened with tickets of later messages: the node dials those in ``dials`` and offers the others. Hidden
    rows come and go in the dtypes of the edges, tokens in int32.
    """

    run: int = _amount()
    model_name: str
    architecture: str
    config: Mapping[str, Any]
    span: Span
    stage: int = _amount()
    stages: int = attrs.field(validator=gt(0))
    units: tuple[Unit, ...]
    compute_dtype: DType
    residual_dtype: DType
    threads: int | None = attrs.field(default=None, validator=optional(gt(0)))
    pages: int = _amount()
    sequences: int = attrs.field(validator=gt(0))
    edge_transport: str
    inbound_edge: str
    outbound_edge: str
    dials: tuple[str, ...]
    inbound_dtype: DType
    outbound_dtype: DType
    device: str
    step_timeout_s: float = attrs.field(validator=gt(0))
    stop_timeout_s: float = attrs.field(validator=gt(0))
    max_step_tokens: int = attrs.field(validator=gt(0))


@attrs.frozen(kw_only=True)
class Started:
    """The beginning of a unit that a node has from an earlier time; ``prefix`` is the hash of these ``nbytes``."""

    hash: str = attrs.field(validator=_HASH)
    nbytes: int = attrs.field(validator=gt(0))
    prefix: str = attrs.field(validator=_HASH)


@attrs.frozen(kw_only=True)
class Need:
    """Node → coordinator: what its store lacks and has only begun, and the tickets of the edges that it offers."""

    run: int = _amount()
    hashes: tuple[str, ...] = attrs.field(validator=deep_iterable(_HASH))
    started: tuple[Started, ...] = ()
    inbound_ticket: bytes = b""
    outbound_ticket: bytes = b""


@attrs.frozen(kw_only=True)
class WeightChunk:
    """A piece of one unit, on the bulk connection; its bytes are the frame's one raw section."""

    SECTIONS: ClassVar[int] = 1

    run: int = _amount()
    hash: str = attrs.field(validator=_HASH)
    offset: int = _amount()
    total: int = _amount()


@attrs.frozen(kw_only=True)
class WeightsComplete:
    """Coordinator → node: everything needed was sent; the tickets open the edges that the node dials."""

    run: int = _amount()
    inbound_ticket: bytes = b""
    outbound_ticket: bytes = b""


@attrs.frozen(kw_only=True)
class LoadComplete:
    """Node → coordinator: the stage is ready (StageReady), with room for ``pages_capacity`` pages."""

    run: int = _amount()
    from_store_bytes: int = _amount()
    received_bytes: int = _amount()
    resident_bytes: int = _amount()
    pages_capacity: int = _amount()


@attrs.frozen(kw_only=True)
class StageFault:
    """Node → coordinator: the stage failed; ``message`` is for the user, ``edge`` the one that can't be dialled."""

    run: int = _amount()
    reason: FaultReason
    message: str
    edge: str = ""


@attrs.frozen(kw_only=True)
class StopRun:
    """Coordinator → node: give up the stage of this run; with ``SHUTDOWN``, that of any run, and leave."""

    run: int = _amount()
    reason: StopReason


@attrs.frozen(kw_only=True)
class StageStopped:
    """Node → coordinator: the stage's threads are gone and its memory is free."""

    run: int = _amount()


@attrs.frozen(kw_only=True)
class Bias:
    """``value`` is added to the logit of token ``id``."""

    id: int = _amount()
    value: float


@attrs.frozen(kw_only=True)
class Sample:
    """Coordinator → the head's node: how to sample a sequence from now on. Rows refer to it by ``number``.

    ``logprobs`` is how many of the likeliest tokens are told beside a token's own log-probability, ``None`` for
    neither. ``prompt`` is a bit for each token that the prompt has, least significant first; ``answer`` are the tokens
    sampled before. Both are empty where no penalty needs them. ``given`` are tokens, from the sequence's first on, that
    aren't sampled where logits for them are wanted: their own log-probabilities are told. These three come with a
    sequence's first message. ``mask`` is a bit for each token that may come next, as in ``prompt``; ``None``: any may.
    """

    run: int = _amount()
    number: int = attrs.field(validator=gt(0))
    sequence: int = _amount()
    temperature: float = attrs.field(validator=ge(0))
    top_k: int = attrs.field(default=0, validator=ge(0))
    top_p: float = attrs.field(validator=gt(0))
    min_p: float = attrs.field(default=0.0, validator=[ge(0), le(1)])
    repetition_penalty: float = attrs.field(default=1.0, validator=gt(0))
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[Bias, ...] = attrs.field(default=(), validator=max_len(limits.MAX_BIAS))
    logprobs: int | None = attrs.field(default=None, validator=optional([ge(0), le(limits.MAX_LOGPROBS)]))
    seed: int
    choice: int = _amount()
    prompt: bytes = attrs.field(default=b"", validator=max_len(limits.MAX_SEEN))
    answer: tuple[int, ...] = attrs.field(default=(), validator=[max_len(limits.MAX_TOKENS), deep_iterable(ge(0))])
    given: tuple[int, ...] = attrs.field(default=(), validator=[max_len(limits.MAX_TOKENS), deep_iterable(ge(0))])
    mask: bytes | None = attrs.field(default=None, validator=optional(max_len(limits.MAX_SEEN)))


@attrs.frozen(kw_only=True)
class Ping:
    """Coordinator → node: are you there? ``spare`` says that the run at work does without the node."""

    number: int = _amount()
    spare: bool = False


@attrs.frozen(kw_only=True)
class Pong:
    """The answer. ``busy_since_s``: seconds that the stage has been loading or at its step, ``None`` when it waits.

    ``done_bytes``: how much of its weights the stage has checked before NEED, or loaded after it. ``run`` is what the
    stage is of, 0 where there is none; its finished steps took ``worked_s`` seconds and sent ``sent_bytes`` on.
    """

    number: int = _amount()
    run: int = attrs.field(default=0, validator=ge(0))
    finished_step: int = _amount()
    busy_since_s: float | None = attrs.field(default=None, validator=optional(ge(0)))
    done_bytes: int = attrs.field(default=0, validator=ge(0))
    worked_s: float = attrs.field(default=0.0, validator=ge(0))
    sent_bytes: int = attrs.field(default=0, validator=ge(0))


@attrs.frozen(kw_only=True)
class Error:
    """The sender can't go on with this connection and will close it; ``message`` is for the user."""

    message: str


Message = (
    Hello
    | HelloAck
    | Assignment
    | Need
    | WeightChunk
    | WeightsComplete
    | LoadComplete
    | StageFault
    | StopRun
    | StageStopped
    | Sample
    | Ping
    | Pong
    | Error
)

TYPES: Mapping[str, type[Message]] = {
    "HELLO": Hello,
    "HELLO_ACK": HelloAck,
    "ASSIGNMENT": Assignment,
    "NEED": Need,
    "WEIGHT_CHUNK": WeightChunk,
    "WEIGHTS_COMPLETE": WeightsComplete,
    "LOAD_COMPLETE": LoadComplete,
    "STAGE_FAULT": StageFault,
    "STOP_RUN": StopRun,
    "STAGE_STOPPED": StageStopped,
    "SAMPLE": Sample,
    "PING": Ping,
    "PONG": Pong,
    "ERROR": Error,
}
"""The ``type`` of an envelope, and what its payload is."""


def sections(message: Message) -> int:
    """How many raw sections follow the message."""
    return getattr(message, "SECTIONS", 0)
