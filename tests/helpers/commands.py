"""Real ``tc`` processes: started with their own folders, watched line by line, and never left behind."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import httpx
import psutil

SETTINGS = ("TRUECLUSTER_KEY", "TRUECLUSTER_DEBUG")
KEY = "a key for tests"


@attrs.frozen
class Ended:
    """How a command ended: exit status, standard output, standard error."""

    code: int
    out: str
    err: str


@attrs.define(eq=False)
class Command:
    """A command at work."""

    process: subprocess.Popen[bytes]
    _out: Path
    _err: Path
    started: float = attrs.field(factory=time.monotonic)

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout: float = 60, count: int = 1) -> re.Match[str]:
        """The ``count``-th match on standard error. Fails with everything that was said where it doesn't come."""
        until = time.monotonic() + timeout
        while True:
            alive = self.process.poll() is None
            found = list(re.finditer(pattern, self.err, re.MULTILINE))
            if len(found) >= count:
                return found[count - 1]
            assert alive, f"{pattern!r} did not come; ended with {self.process.returncode}:\n{self.err}"
            assert time.monotonic() < until, f"{pattern!r} did not come within {timeout:g} s:\n{self.err}"
            time.sleep(0.05)

    def end(self, timeout: float = 60) -> Ended:
        """Wait for its end."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {timeout:g} s:\n{self.err}") from None
        return Ended(code=code, out=self.out, err=self.err)

    def send(self, number: signal.Signals, timeout: float = 20) -> Ended:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        return self.end(timeout)

    def family(self) -> list[psutil.Process]:
        """The process and all that it has started."""
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def listens_on(self) -> list[int]:
        """Ports that the family listens on."""
        found = [c for p in self.family() for c in p.net_connections(kind="tcp")]
        return sorted(c.laddr.port for c in found if c.status == psutil.CONN_LISTEN)


class Commands:
    """Starts commands that keep everything under ``folder``; leaving the block ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Command] = []

    def start(
        self,
        *arguments: object,
        env: dict[str, str] | None = None,
        key: str | None = KEY,
        work_dir: str = "work",
        stdin: int = subprocess.DEVNULL,
    ) -> Command:
        """Start ``tc …``. Packed weights lie in ``work_dir`` of the folder, the key is in the environment."""
        number = len(self._started)
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        place = ["--work-dir", self.folder / work_dir] if arguments[0] in ("run", "cluster", "node") else []
        command = [sys.executable, "-m", "truecluster", *map(str, [*arguments, *place])]
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=to_out,
                stderr=to_err,
                env={**self._environment(), **({"TRUECLUSTER_KEY": key} if key else {}), **(env or {})},
            )
        self._started.append(Command(process, out, err))
        return self._started[-1]

    def run(self, *arguments: object, timeout: float = 60, **how: Any) -> Ended:
        """Start a command and wait for its end."""
        return self.start(*arguments, **how).end(timeout)

    def cluster(self, model: Path, *arguments: object, **how: Any) -> tuple[Command, int, int]:
        """A coordinator on free ports: the command, the port of its API and the one for nodes."""
        command = self.start("cluster", "--model", model, "--api-port", 0, "--node-port", 0, *arguments, **how)
        api = command.wait_for(r"API on http://127\.0\.0\.1:(\d+)/v1")
        node = command.wait_for(r"tc node --cluster-host 127\.0\.0\.1 --cluster-port (\d+)")
        return command, int(api[1]), int(node[1])

    def node(self, port: int, name: str, *arguments: object, **how: Any) -> Command:
        """A node that keeps its weights apart from everybody else's."""
        arguments = ("--node-id", name, "--device", "cpu", "--threads", 1, *arguments)
        return self.start("node", "--cluster-port", port, *arguments, **{"work_dir": name, **how})

    def left(self) -> list[psutil.Process]:
        """Processes that name this object's folder."""
        return [p for p in psutil.process_iter(["cmdline"]) if str(self.folder) in " ".join(p.info["cmdline"] or ())]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        own = {
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
        }
        return {**kept, **own}

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *exc: object) -> None:
        for command in reversed(self._started):
            if command.process.poll() is None:
                command.process.send_signal(signal.SIGINT)
        for command in self._started:
            try:
                command.process.wait(20)
            except subprocess.TimeoutExpired:
                command.process.kill()
                command.process.wait()
        left = wait_gone(self.left())
        for process in left:
            process.kill()
        assert not left, f"processes were left behind: {left}"


@attrs.frozen
class Served:
    """A cluster that answers, the port of its API, and the one for nodes."""

    cluster: Command
    api: int
    port: int

    def post(self, route: str, timeout: float = 60, **body: Any) -> httpx.Response:
        """Ask the API, whose answer has the shape that OpenAI's have."""
        from answers import plain_client

        with plain_client(self.api) as client:
            return client.post(route, json=body, timeout=timeout)

    def complete(self, prompt: object = "Hello", max_tokens: int = 8, **body: Any) -> httpx.Response:
        """Ask for a greedy completion."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **body}
        return self.post("completions", **body)


def wait_gone(processes: list[psutil.Process], timeout: float = 30) -> list[psutil.Process]:
    """Those that still live after ``timeout`` seconds."""
    return list(psutil.wait_procs(processes, timeout)[1])


def until(api: int, route: str, holds: Callable[[Any], bool]) -> Any:
    """What the route of an API says once that holds."""
    deadline = time.monotonic() + 60
    while not holds(found := httpx.get(f"http://127.0.0.1:{api}/{route}", timeout=20).json()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def free_port() -> int:
    """A port that nobody listens on, for what must have the same one twice.

    None of those that a system hands out by itself: others are given one of these at any moment, and who dials one
    that nobody listens on may be given the very same, and reach itself.
    """
    while not is_free(port := 15_000 + secrets.randbelow(15_000)):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether somebody could listen on the port."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
