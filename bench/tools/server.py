"""`tc run --serve`, asked over HTTP like any client asks."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .processes import WAIT_SECONDS, Tc

NOT_READY = 503


class Server(Tc):
    """Ready when constructed. Its own requests go one at a time; ``model`` and ``url`` are for other clients."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        super().__init__(["run", "--serve", "--api-port", "0", *arguments], environment)
        try:
            found = re.search(r"serving (\S+) on http://([^/]+)/v1", self.wait_for("serving "))
            assert found is not None
            self.model, address = found.groups()
            self.url = f"http://{address}/v1"
            self._connection = http.client.HTTPConnection(address, timeout=WAIT_SECONDS)
            self._wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _wait_ready(self) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while self._post("Hello", 1)[0] == NOT_READY:
            if not self.running() or time.monotonic() > end:
                self.wait_for("ready to answer", 1)  # says what it said instead
            time.sleep(0.1)

    def timed(self, prompt: str | list[int], max_tokens: int) -> tuple[float, int]:
        """Seconds of a greedy completion, and how many tokens it has."""
        begin = time.perf_counter()
        status, answer = self._post(prompt, max_tokens)
        seconds = time.perf_counter() - begin
        if status != http.client.OK:
            raise SystemExit(f"the server answered {status}: {answer}")
        return seconds, answer["usage"]["completion_tokens"]

    def decode_rate(self, prompt: str | list[int], tokens: int) -> float:
        """Tokens a second after the first, by the difference of a long and a one-token answer."""
        short, _ = self.timed(prompt, 1)
        long, count = self.timed(prompt, tokens)
        return (count - 1) / (long - short)

    def get(self, route: str) -> Any:
        """What the server answers, parsed."""
        self._connection.request("GET", route)
        with self._connection.getresponse() as response:
            return json.loads(response.read())

    def _post(self, prompt: str | list[int], max_tokens: int) -> tuple[int, Any]:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        self._connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        with self._connection.getresponse() as response:
            return response.status, json.loads(response.read())

    def __exit__(self, *exc: Any) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        super().__exit__(*exc)
