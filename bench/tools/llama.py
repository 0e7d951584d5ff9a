"""llama.cpp's server, to be compared with."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from time import monotonic, sleep

from .processes import WAIT_SECONDS, Child

LISTENING = re.compile(r"listening on (http://\S+?:\d+)")


class LlamaServer(Child):
    """Ready when constructed: ``slots`` requests at once, of ``context`` tokens each. ``url`` is for clients."""

    def __init__(self, program: Path, model: Path, *, threads: int, slots: int, context: int) -> None:
        size = ["--threads", str(threads), "--parallel", str(slots), "--ctx-size", str(slots * context)]
        place = ["--host", "127.0.0.1", "--port", "0", "--no-webui", "--offline", "--alias", "llama.cpp"]
        super().__init__("llama-server", [str(program), "--model", str(model), *size, *place])
        try:
            found = LISTENING.search(self.wait_for("listening on http"))
            assert found is not None
            self.url = f"{found[1]}/v1"
            self._wait_ready(f"{found[1]}/health")
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _wait_ready(self, health: str) -> None:
        end = monotonic() + WAIT_SECONDS
        while not _answers(health):
            if not self.running() or monotonic() > end:
                raise SystemExit("llama-server never got ready")
            sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except (urllib.error.URLError, OSError):
        return False
