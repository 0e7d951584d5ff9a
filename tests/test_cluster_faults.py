"""Runs that fault at each of their phases, and the runs that follow: in one process, over the memory transport."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, Layout, cluster, forced

from truecluster._node.hosting import Hosting
from truecluster._pipeline.stage import Stage
from truecluster.api import NodeError, TrueClusterError

PROMPT, ANSWER = list(b"Hello"), list(b"abcd")


@pytest.fixture
def made(tiny: Path, tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tiny, tmp_path, Layout(nodes=2)) as made:
        yield made


def works(made: Cluster) -> list[list[int]]:
    with made.run() as run:
        return forced(run, [(PROMPT, ANSWER)])


def stages_at_work() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stage")]


def test_one_run_after_another(made: Cluster) -> None:
    assert works(made) == works(made)
    assert not stages_at_work()


@pytest.mark.parametrize("phase", ["need", "_load"])
def test_a_stage_that_cannot_be_made(made: Cluster, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    before = works(made)

    def fail(self: Hosting, *arguments: object) -> None:
        raise MemoryError("no room for the weights")

    with monkeypatch.context() as patched:
        patched.setattr(Hosting, phase, fail)
        with pytest.raises(NodeError, match=r"node worker-\d: .*no room for the weights"):
            made.coordinator.create()
    assert not stages_at_work()
    assert works(made) == before


def test_a_stage_that_fails_in_a_step(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tiny, tmp_path, Layout(nodes=2), restarts=True) as made:
        before = works(made)
        failure = failure_of_a_step(made, monkeypatch)
        assert "ZeroDivisionError: by a kernel" in failure
        assert [fault["message"] for fault in made.coordinator.view()["faults"]] == [f"the run failed: {failure}"]
        assert not stages_at_work()
        assert works(made) == before


def failure_of_a_step(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a run ended whose second stage fails."""
    execute = Stage.execute

    def fail(self: Stage, *arguments: object) -> object:
        if self.shape.span.start == 2:
            raise ZeroDivisionError("by a kernel")
        return execute(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, made.run() as run:
        patched.setattr(Stage, "execute", fail)
        with pytest.raises(TrueClusterError):
            forced(run, [(PROMPT, ANSWER)])
    return str(run.failure)


def test_weights_that_were_damaged_are_packed_or_fetched_again(tiny: Path, tmp_path: Path) -> None:
    layout = Layout(nodes=2)
    with cluster(tiny, tmp_path, layout) as made:
        before = works(made)
    for file in (tmp_path / "objects").glob("*/*"):
        file.write_bytes(bytes(file.stat().st_size))
    with cluster(tiny, tmp_path, layout) as made:
        assert works(made) == before


def test_a_coordinator_that_is_told_to_stop_makes_no_run(made: Cluster) -> None:
    made.portal.call(made.coordinator.stop_creating)
    assert made.coordinator.create() is None


def test_a_coordinator_that_is_told_to_stop_while_stages_load(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    loading, outcome = threading.Event(), queue.SimpleQueue[object]()

    def load(self: Hosting, *arguments: object) -> None:
        loading.set()
        while True:
            self._check()
            time.sleep(0.01)

    monkeypatch.setattr(Hosting, "_load", load)
    threading.Thread(target=lambda: outcome.put(made.coordinator.create())).start()
    assert loading.wait(20)
    made.portal.call(made.coordinator.stop_creating)
    assert outcome.get(timeout=20) is None
    assert not stages_at_work()
