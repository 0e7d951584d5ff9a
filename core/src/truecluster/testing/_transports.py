"""What both halves of a transport's contract are given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeVar

import pytest

from truecluster.api import EdgeTransport, TransportSpec

from ._contract import Contract, Installed
from ._patience import Background
from .rules import LONGEST, require

T = TypeVar("T")
_FAR = f"{__package__}._far"


class TransportGiven(Contract):
    """``transport`` is made from the installed offer, with its default options, for each test."""

    KIND = "transport"
    host: ClassVar[str] = "127.0.0.1"
    largest: ClassVar[int] = 256 << 20
    """Bytes of the largest section that is sent."""
    most_buffered: ClassVar[int] = 64 << 20
    """Bytes that a sender may get rid of while nobody receives."""
    start_s: ClassVar[float] = 60.0
    """Seconds that another process may take to start."""
    patience_s: ClassVar[float] = 20.0
    """Seconds that a call may take which must end."""
    moment_s: ClassVar[float] = 0.05
    """Seconds after which a call that has not ended is taken to wait."""

    @pytest.fixture
    def spec(self, installed: Installed) -> TransportSpec:
        """What the plugin's hook says of the transport."""
        spec: TransportSpec = installed.spec
        return spec

    @pytest.fixture
    def transport(self, installed: Installed) -> Iterator[Any]:
        """The transport under test, closed afterwards."""
        transport = installed.target()
        yield transport
        self.close(transport)

    def close(self, transport: Any) -> None:
        """End what has an end, within a limited time; how it ends is the matter of rules."""
        if isinstance(transport, EdgeTransport):
            with suppress(Exception):
                self.background("close", transport.close).result()

    def offered(self, transport: Any, base: type[T], name: str, says: bool) -> T:
        """The half of the transport that derives from ``base``, where the spec offers it."""
        if not says:
            pytest.skip(f"it offers no {name}")
        require(isinstance(transport, base), f"a {base.__name__}, since the spec offers {name}", type(transport))
        assert isinstance(transport, base)
        return transport

    def background(self, what: str, call: Callable[[], T], start_s: float = 0.0) -> Background[T]:
        """A call in a thread of its own that must end; its own deadline, if it has one, comes first."""
        return Background(what, call, 1.5 * self.patience_s + start_s)

    @contextmanager
    def far(self, spec: TransportSpec, **told: object) -> Iterator[subprocess.Popen[str]]:
        """A process that does in `_far` what it is ``told``; what reaches only this process is skipped."""
        if spec.local:
            pytest.skip("it reaches only this process")
        with subprocess.Popen(
            [sys.executable, "-m", _FAR, json.dumps({"target": spec.target, **told})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def alive(self, process: subprocess.Popen[str]) -> None:
        """The process must not have ended by itself; what it says of why comes from its standard error."""
        if process.poll() is not None:
            assert process.stderr is not None
            require(False, "another process that opens its end", process.stderr.read()[-LONGEST:])
