"""Envelopes: every message there and back, and what hostile peers send (cases DIST-06)."""

from __future__ import annotations

import math
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any, get_args

import attrs
import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecluster._wire import messages
from truecluster._wire.codec import decode, encode
from truecluster._wire.messages import TYPES, FaultReason, Message, StopReason, sections
from truecluster.api import DeviceInfo, DType, Dtypes, EdgeBroken, Role, Span

HASH = "0123456789abcdef" * 4
UNIT = messages.Unit(key="block.0.q", role=Role.LINEAR, shape=(4, 8), format="fp16", hash=HASH, nbytes=64)
EXAMPLES: list[Message] = [
    messages.Hello(
        node_id="n1",
        hostname="häuschen",
        truecluster="0.1.0",
        python_version="3.11.2",
        torch_version="2.13.0",
        platform="linux",
        devices=(DeviceInfo(id="cpu", kind="cpu", name="CPU", total=1 << 40, free=None),),
        selected_device="cpu",
        dtypes=(Dtypes(DType.FP32, DType.FP32), Dtypes(DType.FP16, DType.FP32)),
        speed=17.5e9,
        compat={"format/int4": "0.1.0"},
        pid=12,
    ),
    messages.HelloAck(node_id="n1-2", session=1, coordinator_version="0.1.0", heartbeat_s=2.0, bulk_ticket=b"\x00\xff"),
    messages.Assignment(
        run=1,
        model_name="m",
        architecture="qwen2",
        config={"hidden_size": 8, "rope": {"theta": 1e6, "list": [1, None, True, "x"]}},
        span=Span(0, 3, embed=True),
        stage=0,
        stages=2,
        units=(UNIT, UNIT),
        compute_dtype=DType.FP32,
        residual_dtype=DType.FP32,
        pages=16,
        sequences=8,
        edge_transport="tcp",
        inbound_edge="1/0",
        outbound_edge="1/1",
        dials=("1/1",),
        inbound_dtype=DType.INT32,
        outbound_dtype=DType.BF16,
        device="cpu",
        step_timeout_s=60.0,
        stop_timeout_s=10.0,
        max_step_tokens=512,
    ),
    messages.Need(run=1, hashes=(HASH,), inbound_ticket=b"t"),
    messages.WeightChunk(run=1, hash=HASH, offset=0, total=3),
    messages.WeightsComplete(run=1, outbound_ticket=b"t"),
    messages.LoadComplete(run=1, from_store_bytes=1, received_bytes=2, resident_bytes=3, pages_capacity=4),
    messages.StageFault(run=1, reason=FaultReason.LOAD_FAILED, message="no memory"),
    messages.StopRun(run=1, reason=StopReason.REPLACED),
    messages.StageStopped(run=1),
    messages.Sample(
        run=1,
        number=1,
        sequence=0,
        temperature=0.0,
        top_p=1.0,
        logit_bias=(messages.Bias(id=5, value=-1.5),),
        logprobs=0,
        seed=2**64 - 1,
        choice=0,
        prompt=b"\x01",
        answer=(3, 3),
    ),
    messages.Ping(number=1),
    messages.Pong(number=1, run=3, finished_step=2, busy_since_s=0.5, worked_s=1.5, sent_bytes=1 << 40),
    messages.Error(message="x"),
]


def _sizes(message: Message) -> list[int]:
    return [3] * sections(message)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    envelope, back = decode(encode(message, 5, _sizes(message), "req-1"))
    assert repr(back) == repr(message)  # a repr tells an enum from its text
    assert (envelope.seq, envelope.request_id, list(envelope.sections)) == (5, "req-1", _sizes(message))


def test_the_set_of_messages_is_closed_and_every_one_has_an_example() -> None:
    assert set(TYPES.values()) == {type(message) for message in EXAMPLES} == set(get_args(Message))


def test_the_envelope_has_the_keys_of_the_specification() -> None:
    envelope = msgpack.unpackb(encode(messages.StageStopped(run=3), 1))
    assert envelope == {"type": "STAGE_STOPPED", "seq": 1, "payload": {"run": 3}}


def _ping(**changes: Any) -> dict[str, Any]:
    return {"type": "PING", "seq": 1, "payload": {"number": 1}, **changes}


HOSTILE = {
    "empty": b"",
    "never used byte": b"\xc1",
    "deep": b"\x91" * 100_000,
    "array32": b"\xdd\xff\xff\xff\xff",
    "map32": b"\xdf\xff\xff\xff\xff",
    "bin32": b"\xc6\xff\xff\xff\xff",
    "bad timestamp": b"\xc7\x03\xff\x00\x00\x00",
    "timestamp": msgpack.packb(_ping(payload={"number": msgpack.Timestamp(1)})),
    "extension": msgpack.packb(_ping(payload={"number": msgpack.ExtType(5, b"x")})),
    "bad utf-8": b"\x81\xa4type\xa1\xff",
    "int key": msgpack.packb({1: 2}),
    "trailing": msgpack.packb(_ping()) + b"\x00",
    "not a map": msgpack.packb([1]),
    "nil": msgpack.packb(None),
    "nested config": msgpack.packb(_ping(payload={"number": [[[[1]]]]})),
    "missing": msgpack.packb({"type": "PING", "seq": 1}),
    "missing field": msgpack.packb(_ping(payload={})),
    "unknown key": msgpack.packb(_ping(extra=1)),
    "unknown field": msgpack.packb(_ping(payload={"number": 1, "x": 2})),
    "double key": b"\x82"
    + msgpack.packb("type")
    + msgpack.packb("PING")
    + msgpack.packb("type")
    + msgpack.packb("PING"),
    "unknown type": msgpack.packb(_ping(type="FOO")),
    "type of list": msgpack.packb(_ping(type=["PING"])),
    "bool for int": msgpack.packb(_ping(payload={"number": True})),
    "float for int": msgpack.packb(_ping(payload={"number": 1.0})),
    "text for int": msgpack.packb(_ping(payload={"number": "1"})),
    "negative": msgpack.packb(_ping(payload={"number": -1})),
    "payload a list": msgpack.packb(_ping(payload=[1])),
    "seq 0": msgpack.packb(_ping(seq=0)),
    "sections where none are": msgpack.packb(_ping(sections=[1])),
    "nan": msgpack.packb(_ping(type="PONG", payload={"number": 1, "finished_step": 1, "busy_since_s": math.nan})),
    "infinity": msgpack.packb(_ping(type="PONG", payload={"number": 1, "finished_step": 1, "busy_since_s": math.inf})),
    "unknown reason": msgpack.packb(_ping(type="STOP_RUN", payload={"run": 1, "reason": "WHIM"})),
    "bytes for text": msgpack.packb(_ping(type="ERROR", payload={"message": b"x"})),
    "huge text": msgpack.packb(_ping(type="ERROR", payload={"message": "x" * 100_000})),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_become_the_one_error(data: bytes) -> None:
    with pytest.raises(EdgeBroken, match="breaks the protocol"):
        decode(data)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_hostile_bytes_claim_is_not_allocated(data: bytes) -> None:
    assert _peak(lambda: decode(data)) < (1 << 20) + 64 * len(data)


def _peak(call: Callable[[], object]) -> int:
    """The most bytes that Python held for a call that is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(EdgeBroken):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LENGTHS = st.sampled_from([b"\xc6", b"\xc9", b"\xdb", b"\xdd", b"\xdf"])
"""bin32, ext32, str32, array32, map32."""


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(1 << 16, 2**32 - 1), st.binary(max_size=100))
def test_no_claimed_length_is_allocated(kind: bytes, length: int, rest: bytes) -> None:
    """Nor inside a message that is well-formed up to there."""
    claim = kind + struct.pack(">I", length) + rest
    inside = b"\x83" + msgpack.packb({"type": "ERROR", "seq": 1})[1:] + msgpack.packb("payload") + claim
    for data in (claim, inside):
        assert _peak(lambda data=data: decode(data)) < 1 << 20  # type: ignore[misc]


def _chunk(sizes: list[Any], **changes: Any) -> bytes:
    payload = {"run": 1, "hash": HASH, "offset": 0, "total": 1, **changes}
    return msgpack.packb({"type": "WEIGHT_CHUNK", "seq": 1, "payload": payload, "sections": sizes})


@pytest.mark.parametrize("sizes", [[], [0], [-1], [(8 << 20) + 1], [2**63], [1, 1], [True], ["1"]], ids=str)
def test_sections_are_counted_and_capped(sizes: list[Any]) -> None:
    with pytest.raises(EdgeBroken):
        decode(_chunk(sizes))


@pytest.mark.parametrize("hash", ["", HASH[:-1], HASH.upper(), HASH + "\n", "../" + HASH])
def test_a_hash_is_sixty_four_hex_digits(hash: str) -> None:
    with pytest.raises(EdgeBroken, match="hash"):
        decode(_chunk([1], hash=hash))


def _assignment(**changes: Any) -> bytes:
    raw = msgpack.unpackb(encode(EXAMPLES[2], 1))
    raw["payload"].update(changes)
    return msgpack.packb(raw)


def _nested(depth: int) -> Any:
    return {"a": _nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    "changes",
    [
        {"config": _nested(30)},
        {"config": {"a": math.nan}},
        {"config": {"a": b"x"}},
        {"config": [1]},
        {"units": "abc"},
        {"units": [[1]]},
        {"units": [{}]},
        {"span": {"start": 0, "stop": "3"}},
        {"compute_dtype": "complex128"},
        {"threads": 0},
        {"step_timeout_s": 0},
    ],
    ids=str,
)
def test_nested_fields_are_as_strict(changes: dict[str, Any]) -> None:
    with pytest.raises(EdgeBroken):
        decode(_assignment(**changes))


def test_what_is_too_large_to_receive_is_not_sent() -> None:
    assignment = attrs.evolve(EXAMPLES[2], config={str(i): "x" * 60_000 for i in range(20)})
    with pytest.raises(EdgeBroken, match="at most 1048576"):
        encode(assignment, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_the_one_error(data: bytes) -> None:
    with pytest.raises(EdgeBroken):
        decode(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(TYPES)), JSON, st.dictionaries(st.sampled_from(["run", "number", "message"]), JSON))
def test_any_payload_gives_a_message_or_the_one_error(type: str, loose: Any, fields: Any) -> None:
    for payload in (loose, fields):
        try:
            _, message = decode(msgpack.packb({"type": type, "seq": 1, "payload": payload}))
        except EdgeBroken:
            continue
        assert isinstance(message, TYPES[type])
