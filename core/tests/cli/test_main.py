"""What reaches the terminal: one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from truecluster._cli import app as application
from truecluster._cli import main
from truecluster.api import CheckpointError, NodeError


@pytest.fixture
def fail(monkeypatch, capsys):
    """Run ``tc fail`` whose body raises; gives exit code and standard error."""

    def run(error: BaseException) -> tuple[int, str]:
        def command() -> None:
            raise error

        monkeypatch.setattr(application.app, "registered_commands", [])
        application.app.command("fail")(command)
        monkeypatch.setattr(sys, "argv", ["tc", "fail"])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CheckpointError("no such\n  model"), 2, "tc: no such model\n"),
        (NodeError("node 1 died"), 1, "tc: node 1 died\n"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("odd"), 1, "tc: internal error: ValueError: odd (TRUECLUSTER_DEBUG=1 shows where)\n"),
    ],
)
def test_an_error_becomes_a_line_and_an_exit_code(fail, monkeypatch, error, code, line):
    monkeypatch.delenv("TRUECLUSTER_DEBUG", raising=False)
    assert fail(error) == (code, line)


def test_a_traceback_is_shown_only_on_request(fail, monkeypatch):
    monkeypatch.setenv("TRUECLUSTER_DEBUG", "1")
    code, text = fail(ValueError("odd"))
    assert code == 1
    assert text.startswith("Traceback (most recent call last)")
    assert text.endswith("tc: internal error: ValueError: odd (TRUECLUSTER_DEBUG=1 shows where)\n")


def tc(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "truecluster", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_module_is_the_command():
    done = tc("--version")
    assert (done.returncode, done.stdout) == (0, f"truecluster {version('truecluster')}\n")


def test_help_is_plain_text():
    done = tc("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: tc [OPTIONS] COMMAND [ARGS]...\n")
    assert all(line.isascii() for line in done.stdout.splitlines())


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["plugin", "list", "--nonsense"]])
def test_a_command_or_option_that_does_not_exist_is_the_users_mistake(arguments):
    done = tc(*arguments)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert done.stdout == ""
