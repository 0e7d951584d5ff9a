"""Every command of the README is run as it stands there, with ports of the system's choice."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import KEY, Commands
from goldens import real_model

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONSOLE = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
TARGETS = re.findall(r"^make (\w+)$", README, re.MULTILINE)
SERVICES = ("cluster", "node", "curl", "status")
"""What needs a cluster at work, or is one."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The commands share what they fetch and pack, as on a reader's machine."""
    with Commands(tmp_path_factory.mktemp("tour")) as commands:
        yield commands


def _words(line: str) -> list[str]:
    """The words behind ``tc``, without settings of the environment."""
    words = [word for word in shlex.split(line) if not word.startswith("TRUECLUSTER_KEY=")]
    return words[1:] if words[0] == "tc" else words


def _ending() -> list[str]:
    return [line for line in CONSOLE if _words(line)[0] not in SERVICES and "--serve" not in line]


def test_the_readme_has_commands_of_every_kind() -> None:
    assert {_words(line)[0] for line in CONSOLE} >= {"run", "plan", "cluster", "node", "plugin", "curl", "status"}
    assert set(TARGETS) >= {"demo", "test"}


def test_make_has_the_targets_and_demo_runs_the_command_that_is_shown() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in TARGETS)
    assert f"$(BIN)/{CONSOLE[0]}" in makefile


@pytest.mark.parametrize("line", _ending())
def test_a_command_that_ends(line: str, tour: Commands) -> None:
    words = [str(real_model(word[2:])) if word.startswith("./") else word for word in _words(line)]
    ended = tour.run(*words, timeout=280)
    assert ended.code == 0, ended.err
    assert len(ended.out.strip()) > 20
    if "--json" in words:
        assert json.loads(ended.out)["usage"]["completion_tokens"] == 16


def test_the_cluster_of_the_tour(tour: Commands) -> None:
    cluster = next(line for line in CONSOLE if "tc cluster" in line and "--node-host" not in line)
    nodes = [line for line in CONSOLE if "tc node" in line]
    running = tour.start(*_words(cluster), "--node-port", 0, "--api-port", 0)
    port = running.wait_for(r"tc node --cluster-host 127\.0\.0\.1 --cluster-port (\d+)", 280)[1]
    api = running.wait_for(r"API on http://127\.0\.0\.1:(\d+)/v1")[1]
    for node in nodes:
        words = [{"7001": port}.get(word, word) for word in _words(node)]
        store = words.pop(words.index("--work-dir") + 1)
        words.remove("--work-dir")
        tour.start(*words, work_dir=store)
    assert "0.0 MB sent" not in running.wait_for(r"weights .* from its store.*", 280, count=2)[0]
    for line in CONSOLE:
        if line.startswith("tc status"):
            shown = tour.run(*_words(line.replace(":8000", f":{api}")))
            assert shown.code == 0, shown.err
            assert "running" in shown.out.splitlines()[0]
    if shutil.which("curl") is None:
        pytest.skip("curl isn't installed")
    for line in CONSOLE:
        if line.startswith("curl"):
            answer = _curl(line.replace(":8000", f":{api}"))
            assert "error" not in answer, answer
            assert answer["object"] in ("list", "chat.completion")


def _curl(line: str) -> dict[str, object]:
    done = subprocess.run([*shlex.split(line), "--silent", "--max-time", "120"], capture_output=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_what_is_served_answers_the_client(tour: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = [line for line in CONSOLE if "--serve" in line]
    running = tour.start(*_words(line), "--api-port", 0)
    port = running.wait_for(r"serving .* on http://127\.0\.0\.1:(\d+)/v1", 280)[1]
    running.wait_for("^ready: ", 280)
    [program] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    known: dict[str, Any] = {}
    exec(program.replace(":8000", f":{port}"), known)
    assert capsys.readouterr().out.strip()
    known["client"].close()


def test_a_cluster_for_other_machines_listens_on_the_network(tour: Commands) -> None:
    line = next(line for line in CONSOLE if "--node-host 0.0.0.0" in line)
    env = {"TRUECLUSTER_KEY": KEY}
    running = tour.start(*_words(line), "--node-port", 0, "--api-port", 0, env=env)
    running.wait_for(r"tc node --cluster-host", 280)
    assert len(running.listens_on()) == 2
