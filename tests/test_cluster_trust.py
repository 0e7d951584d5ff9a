"""What the wire may never do: run code that came over it (SEC-01), or name anything that isn't in a closed set."""

from __future__ import annotations

import io
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from commands import KEY, Commands, Served
from puppets import Puppet, exactly, framed, hung_up

from truecluster._wire.handshake import Purpose, prover
from truecluster._wire.messages import TYPES


class Touch:
    """Whoever unpickles this makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.file,)


def payloads(file: Path) -> dict[str, bytes]:
    saved = io.BytesIO()
    torch.save(Touch(file), saved)
    return {"pickle": pickle.dumps(Touch(file), protocol=4), "torch-save": saved.getvalue()}


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "it was run"
    yield file
    assert not file.exists()


def test_the_trap_works(tmp_path: Path) -> None:
    file = tmp_path / "it was run"
    pickle.loads(payloads(file)["pickle"])
    assert file.exists()


@pytest.mark.parametrize("kind", ["pickle", "torch-save"])
@pytest.mark.parametrize("bare", [True, False], ids=["bare", "framed"])
def test_a_coordinator_runs_nothing_sec_01(served: Served, trap: Path, kind: str, bare: bool) -> None:
    data = payloads(trap)[kind]
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        prover(KEY.encode(), Purpose.CONTROL)(lambda size: exactly(sock, size), sock.sendall, True)
        sock.sendall(data if bare else framed(data))
        sock.shutdown(socket.SHUT_WR)
        assert hung_up(sock)
    assert served.complete().status_code == 200


@pytest.mark.parametrize("kind", ["pickle", "torch-save"])
def test_a_node_runs_nothing_sec_01(tc: Commands, trap: Path, kind: str) -> None:
    puppet = Puppet()
    node = tc.node(puppet.port, "w")
    for connection in ("control", "bulk"):
        with puppet.join() as joined:
            getattr(joined, connection).sendall(framed(payloads(trap)[kind]))
            assert hung_up(joined.control)
    assert node.process.poll() is None
    puppet.close()


def test_the_set_of_messages_is_the_architectures_sec_10() -> None:
    """Section 4 of the architecture; nothing in it names a file, an operation or code."""
    named = "HELLO HELLO_ACK ASSIGNMENT NEED WEIGHT_CHUNK WEIGHTS_COMPLETE LOAD_COMPLETE STAGE_FAULT STOP_RUN"
    assert set(TYPES) == {*named.split(), *["STAGE_STOPPED", "SAMPLE", "PING", "PONG", "ERROR"]}
