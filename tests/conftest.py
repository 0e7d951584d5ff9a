"""Lets suites import helpers and the device checks, and gives them models and commands; nothing heavy is imported."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "device_checks"))
sys.path.append(str(Path(__file__).parents[1] / "core" / "tests" / "helpers"))
os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # idle pools of several processes must not eat each other's cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

from commands import Commands, Ended, Served
from goldens import real_model
from tiny_checkpoints import write_tiny
from wheels import built, installed

if TYPE_CHECKING:
    from openai import OpenAI


@pytest.fixture
def tc(tmp_path: Path) -> Iterator[Commands]:
    """Starts ``tc`` commands; at the end nothing of them may be left."""
    with Commands(tmp_path) as commands:
        yield commands


@pytest.fixture
def tc_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    """Runs ``tc`` in this process, which saves seconds where nothing may be started anyway."""

    def run(*arguments: object) -> Ended:
        from truecluster._cli import main
        from truecluster._cluster import local

        def started(*arguments: object) -> None:
            raise AssertionError("a worker was started")

        monkeypatch.setattr(local, "Workers", started)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(sys, "argv", ["tc", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Served]:
    """A cluster of two nodes that answers; whatever a test does to it, it must go on answering."""
    with Commands(tmp_path_factory.mktemp("served")) as commands:
        cluster, api, port = commands.cluster(tiny, "--max-nodes", 2)
        for name in "ab":
            commands.node(port, name)
        cluster.wait_for("^b: blocks")
        yield Served(cluster, api, port)


@pytest.fixture(scope="session")
def served_last_stage(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Served]:
    """As `served`, but the last node has the head, and samples."""
    with Commands(tmp_path_factory.mktemp("served-last-stage")) as commands:
        cluster, api, port = commands.cluster(tiny, "--max-nodes", 2, "--head", "last-stage")
        for name in "ab":
            commands.node(port, name)
        cluster.wait_for("^b: ")
        yield Served(cluster, api, port)


@pytest.fixture(scope="module", params=["coordinator", "last-stage"])
def api(request: pytest.FixtureRequest) -> Served:
    """Both clusters, one after the other: what an API promises doesn't hang on where the head is."""
    chosen = "served" if request.param == "coordinator" else "served_last_stage"
    found: Served = request.getfixturevalue(chosen)
    return found


@pytest.fixture(scope="module")
def official(api: Served) -> Iterator[OpenAI]:
    """OpenAI's own client, which holds all answers to OpenAI's schemas."""
    from answers import official_client

    with official_client(api.api) as client:
        yield client


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 model of four layers as a Hugging Face folder."""
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One of every package of the workspace."""
    return built(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def environment(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a virtual environment of the wheels, with nothing of the source tree on its path."""
    return installed(wheels, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `tiny`, with so many weights that packing them takes a few seconds."""
    return write_tiny(tmp_path_factory.mktemp("models") / "wide", hidden_size=768, intermediate_size=3072)


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    return real_model("smollm2-135m-instruct.gguf")


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    return real_model("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def qwen_folder() -> Path:
    return real_model("qwen2.5-coder-0.5b-instruct")
