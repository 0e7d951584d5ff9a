"""A real worker and a coordinator that has the key and breaks the rules: it leaves that connection, and lives on."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import msgpack
import psutil
import pytest
from commands import Command, Commands
from puppets import Puppet, framed, hung_up

from truecluster._registry import Registry
from truecluster._wire import messages as wire
from truecluster._wire.codec import encode
from truecluster.api import Block, DType, Span

FLAT = 128 << 20
"""Bytes by which a worker may grow in this module: two buffers for weights among them."""
HASH = "ab" * 32

BROKEN = {
    "length-2^32": struct.pack(">Q", 2**32 - 1) + bytes(64),
    "length-2^64": struct.pack(">Q", 2**64 - 1),
    "length-over-the-cap": struct.pack(">Q", (1 << 20) + 1),
    "length-0": struct.pack(">Q", 0),
    "cut-in-the-length": b"\xff\xff\xff\xff",
    "cut-in-the-envelope": framed(encode(wire.Ping(number=1), 2))[:-1],
    "never-used-byte": framed(b"\xc1"),
    "nested": framed(b"\x91" * 100_000),
    "array32": framed(b"\xdd\xff\xff\xff\xff"),
    "map32": framed(b"\xdf\xff\xff\xff\xff"),
    "bin32": framed(b"\xc6\xff\xff\xff\xff"),
    "bad-timestamp": framed(b"\xc7\x03\xff\x00\x00\x00"),
    "bad-utf-8": framed(b"\x81\xa4type\xa1\xff"),
    "int-keys": framed(msgpack.packb({1: 2})),
    "trailing": framed(encode(wire.Ping(number=1), 2) + b"\x00"),
    "a-list": framed(msgpack.packb([1])),
    "missing": framed(msgpack.packb({"type": "PING", "seq": 2})),
    "ill-typed": framed(msgpack.packb({"type": "PING", "seq": 2, "payload": {"number": "1"}})),
    "unknown-type": framed(msgpack.packb({"type": "RUN_SHELL", "seq": 2, "payload": {"command": "id"}})),
    "out-of-order": framed(encode(wire.Ping(number=1), 9)),
    "section-of-8-EiB": framed(
        msgpack.packb(
            {
                "type": "WEIGHT_CHUNK",
                "seq": 2,
                "payload": {"run": 1, "hash": HASH, "offset": 0, "total": 2**63},
                "sections": [2**63],
            }
        )
    ),
    "not-a-coordinator's": framed(
        encode(wire.LoadComplete(run=1, from_store_bytes=0, received_bytes=0, resident_bytes=0, pages_capacity=0), 2)
    ),
}


@attrs.frozen
class Worker:
    """A node process and the puppet that it joins, again and again."""

    command: Command
    puppet: Puppet

    @property
    def resident(self) -> int:
        return int(psutil.Process(self.command.process.pid).memory_info().rss)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    puppet = Puppet()
    with Commands(tmp_path_factory.mktemp("worker")) as commands:
        worker = Worker(commands.node(puppet.port, "w"), puppet)
        with puppet.join() as joined:
            joined.send(wire.Ping(number=1))
            assert isinstance(joined.hear(), wire.Pong)
            before = worker.resident
        yield worker
        with puppet.join() as joined:
            joined.send(wire.Ping(number=1))
            assert isinstance(joined.hear(), wire.Pong)
            assert worker.resident - before < FLAT
        assert "Traceback" not in worker.command.err, worker.command.err
    puppet.close()


@pytest.mark.parametrize("frame", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("connection", ["control", "bulk"])
def test_frames_that_break_the_rules_dist_05_dist_06(worker: Worker, connection: str, frame: bytes) -> None:
    """The worker hangs up, and looks for its coordinator again."""
    with worker.puppet.join() as joined:
        sock = getattr(joined, connection)
        if connection == "bulk":
            frame = frame.replace(encode(wire.Ping(number=1), 2), encode(wire.Ping(number=1), 1))
        with suppress(OSError):  # it may have hung up already
            sock.sendall(frame)
            sock.shutdown(1)
        assert hung_up(joined.control)
        assert hung_up(joined.bulk)
    assert worker.command.process.poll() is None


def assignment(model: Path, **changes: object) -> wire.Assignment:
    """A stage of the tiny model, with ``changes``."""
    sent = wire.Assignment(
        run=1,
        model_name="tiny",
        architecture="qwen2",
        config=json.loads((model / "config.json").read_text()),
        span=Span(0, 2),
        stage=0,
        stages=1,
        units=(),
        compute_dtype=DType.FP32,
        residual_dtype=DType.FP32,
        pages=16,
        sequences=2,
        edge_transport="tcp",
        inbound_edge="1.0",
        outbound_edge="1.1",
        dials=(),
        inbound_dtype=DType.FP32,
        outbound_dtype=DType.FP32,
        device="cpu",
        step_timeout_s=5.0,
        stop_timeout_s=5.0,
        max_step_tokens=64,
    )
    return attrs.evolve(sent, **changes)


def units(model: Path, **changes: object) -> tuple[wire.Unit, ...]:
    """Those of the first two blocks in fp16, the first of them with ``changes``."""
    registry = Registry.installed()
    architecture = registry.resolve("architecture", "qwen2")()
    config = architecture.config(json.loads((model / "config.json").read_text()))
    slots = [slot for layer in range(2) for slot in architecture.slots(config, Block(layer))]
    fp16 = registry.format("fp16")
    first, *rest = (
        wire.Unit(
            key=slot.key, role=slot.role, shape=slot.shape, format="fp16", hash=HASH, nbytes=fp16.wire_bytes(slot.shape)
        )
        for slot in slots
    )
    return (attrs.evolve(first, **changes), *rest)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architecture": "os:system"}, "os:system"),
        ({"architecture": "../../etc/passwd"}, "../../etc/passwd"),
        ({"device": "/dev/mem"}, "/dev/mem"),
        ({"device": "cuda:99"}, "cuda:99"),
        ({"edge_transport": "subprocess:Popen"}, "subprocess:Popen"),
        ({"units": {"format": "pickle"}}, "pickle"),
        ({"units": {"format": "builtins:eval"}}, "builtins:eval"),
        ({"units": {"format": "fp16.../../etc"}}, "fp16.../../etc"),
        ({"units": {"key": "../../etc/passwd"}}, "is missing, and should be"),
        ({"units": {"key": "block.9.q"}}, "is missing, and should be"),
        ({"units": {"shape": (2**40, 2**20)}}, "is (1099511627776, 1048576), and should be"),
        ({"units": {"nbytes": 2**62}}, "of 4611686018427387904 bytes"),
        ({"span": Span(2, 9)}, "9 for its last block, at most 4"),
        ({"span": Span(0, 10**9)}, "1000000000 for its last block"),
        ({"config": {"model_type": "qwen2"}}, "hidden_size"),
        ({"pages": 2**60}, "for pages, at most"),
        ({"sequences": 2**60}, "for sequences, at most"),
        ({"max_step_tokens": 2**60}, "for tokens a step, at most"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_a_worker_runs_and_opens_only_what_it_knows_sec_10(
    worker: Worker, tiny: Path, changes: dict[str, object], named: str
) -> None:
    """No operation, path, name or size of a coordinator's is taken as it comes: a fault says which it was."""
    with worker.puppet.join() as joined:
        changed = changes.get("units", {})
        assert isinstance(changed, dict)
        joined.send(assignment(tiny, **{**changes, "units": units(tiny, **changed)}))
        answer = joined.hear()
        assert isinstance(answer, wire.StageFault), answer
        assert answer.reason is wire.FaultReason.LOAD_FAILED
        assert named in answer.message
        joined.send(wire.StopRun(run=1, reason=wire.StopReason.FAULTED))
        assert joined.hear() == wire.StageStopped(run=1)
    assert not [file for file in psutil.Process(worker.command.process.pid).open_files() if "etc" in file.path]
