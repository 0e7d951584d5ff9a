"""`make check-devices`, with processors that declare different dtypes for nodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import KEY, Commands
from goldens import real_model

ROOT = Path(__file__).parents[1]
PROGRAM = [sys.executable, str(ROOT / "device_checks" / "run.py")]
HALVES = {"PYTHONPATH": str(ROOT / "tests" / "plugins")}


@pytest.mark.timeout(300)
def test_the_report(tc: Commands) -> None:
    """Every result is as it should be: each node alone, then both, in both orders."""
    model = real_model("smollm2-135m-instruct.gguf")
    arguments = ["--coordinator", "127.0.0.1:0", "--model", str(model), "--work-dir", str(tc.folder / "work")]
    said = tc.folder / "said"
    with said.open("w") as out:
        checks = subprocess.Popen(
            [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=out, env={**os.environ, "TRUECLUSTER_KEY": KEY}
        )
    try:
        port = _port(checks, said)
        tc.node(port, "half", "--device", "half", env=HALVES, work_dir="work")
        tc.node(port, "plain", work_dir="work")
        report = checks.communicate(timeout=280)[0].decode()
    finally:
        checks.kill()
        checks.wait()
    assert checks.returncode == 0, said.read_text()
    assert "picks 159 of 159 decidable golden tokens" in report
    rows = re.findall(r"^\| (.*?) \| fp32 .* \| as it should \|$", report, re.MULTILINE)
    assert sorted(rows[:3]) == ["half fp16", "half fp32", "plain fp32"]
    assert {"half fp16 → plain fp32", "plain fp32 → half fp16"} <= set(rows[3:])
    assert re.search("Generation over .* completes with 24 tokens", report)
    assert "WRONG" not in report


def _port(checks: subprocess.Popen[bytes], said: Path) -> int:
    until = time.monotonic() + 60
    while not (found := re.search(r"--cluster-port (\d+)", said.read_text())):
        assert checks.poll() is None, said.read_text()
        assert time.monotonic() < until, said.read_text()
        time.sleep(0.05)
    return int(found[1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--coordinator", "nowhere"], "'nowhere' is not of the form HOST:PORT"),
        (["--coordinator", "0.0.0.0:7001"], "set TRUECLUSTER_KEY"),
        ([], "--coordinator"),
    ],
    ids=["form", "key", "none"],
)
def test_what_it_is_not_told(arguments: list[str], words: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TRUECLUSTER_KEY"}
    ended = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ended.returncode == 2
    assert words in ended.stderr


def test_nodes_that_stay_away(tc: Commands, tiny: Path) -> None:
    arguments = ["--coordinator", "127.0.0.1:0", "--model", str(tiny), "--wait", "0.1", "--work-dir", str(tc.folder)]
    ended = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "0 of 2 nodes joined within 0.1 s" in ended.stderr


def test_make_passes_the_coordinator_on() -> None:
    def dry(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-n", "-o", "env", "check-devices", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )

    assert "device_checks/run.py --coordinator somewhere:7001" in dry("COORDINATOR=somewhere:7001").stdout
    refused = dry()
    assert refused.returncode != 0
    assert "COORDINATOR=host:port" in refused.stderr
