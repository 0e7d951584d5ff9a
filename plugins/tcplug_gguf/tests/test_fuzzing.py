"""Valid small files with bytes changed, cut out, put in or cut off: they open, or end in a `CheckpointError`.

GGUF-03, GGUF-04: never another exception, never much memory, never for long.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tcplug_gguf.checkpoint import GgufSource

from truecluster.api import CheckpointError, OpenOptions

MOST_MEMORY = 64 << 20
HUGE = [b"\xff" * 8, (2**63).to_bytes(8, "little"), (2**40).to_bytes(8, "little"), (2**32).to_bytes(8, "little")]


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory, small: Callable[[Path], Path]) -> bytes:
    return small(tmp_path_factory.mktemp("valid")).read_bytes()


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[str, float, bytes]]:
    """What to do, where (as a fraction of the header's bytes), and with which bytes."""
    kind = st.sampled_from(["set", "insert", "delete", "cut"])
    content = st.one_of(st.binary(min_size=1, max_size=12), st.sampled_from(HUGE))
    return draw(st.lists(st.tuples(kind, st.floats(0, 1), content), min_size=1, max_size=4))


def mutated(raw: bytes, changes: list[tuple[str, float, bytes]], header: int) -> bytes:
    for kind, fraction, content in changes:
        place = int(fraction * min(header, len(raw)))
        rest = {"set": place + len(content), "insert": place, "delete": place + len(content), "cut": len(raw)}[kind]
        raw = raw[:place] + (content if kind in ("set", "insert") else b"") + raw[rest:]
    return raw


def everything(path: Path) -> None:
    """Open and read all that there is."""
    with GgufSource().open(str(path), OpenOptions()) as checkpoint:
        for name, info in checkpoint.tensors.items():
            assert checkpoint.read(name).data.numel() == info.nbytes
        checkpoint.tokenizer()


def reason(path: Path) -> str | None:
    """Why it is refused, ``None`` where it opens."""
    try:
        everything(path)
    except CheckpointError as error:
        return str(error)
    return None


@settings(max_examples=400, deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=mutations())
@example(changes=[("set", 0.0, b"GGUF\x02\x00\x00\x00")])
def test_a_mutated_file_opens_or_is_refused(
    valid: bytes, tmp_path: Path, changes: list[tuple[str, float, bytes]]
) -> None:
    path = tmp_path / "mutated.gguf"
    path.write_bytes(mutated(valid, changes, header=len(valid) - 2048))
    tracemalloc.start()
    said = reason(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said is None or str(path) in said
    assert peak < MOST_MEMORY


def test_every_byte_of_the_opening_may_be_anything(valid: bytes, tmp_path: Path) -> None:
    """Magic, version, counts, and the first key."""
    path = tmp_path / "flipped.gguf"
    for place in range(64):
        for value in (0, 1, 127, 128, 255):
            path.write_bytes(valid[:place] + bytes([value]) + valid[place + 1 :])
            said = reason(path)
            assert said is None or str(path) in said
