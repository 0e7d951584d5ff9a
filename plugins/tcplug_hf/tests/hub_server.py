"""A small server that speaks the hub's API, with the ways in which a hub refuses, breaks off and stalls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

COMMIT = "f" * 40
TOKEN = "hf_for_tests"


class Hub(BaseHTTPRequestHandler):
    """Serves ``Acme/Served`` and, to who has the token, ``Acme/Private``; others don't exist, or are gated."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []
    breaks: ClassVar[dict[str, int]] = {}
    """File → after how many bytes its next answer breaks off."""
    stalls: ClassVar[dict[str, threading.Event]] = {}
    """File → what its answer waits for in the middle."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        known = "/Acme/Served" in path or ("/Acme/Private" in path and self._has_token())
        if not known:
            self._send(b"{}", 403 if "Gated" in path else 401, {"X-Error-Code": self._code(path)})
        elif "/tree/" in path:
            self._send(json.dumps([self._entry(name) for name in self.files]).encode())
        elif path.startswith("/api/models/"):
            self._send(json.dumps(self._facts()).encode())
        else:
            self._send_file(path.split("/resolve/")[1].partition("/")[2])

    do_HEAD = do_GET

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _facts(self) -> dict[str, Any]:
        siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
        return {"id": "Acme/Served", "sha": COMMIT, "siblings": siblings}

    def _entry(self, name: str) -> dict[str, Any]:
        return {"type": "file", "path": name, "size": len(self.files[name]), "oid": sha1(self.files[name]).hexdigest()}

    def _code(self, path: str) -> str:
        return "GatedRepo" if "Gated" in path else "RevisionNotFound" if "revision" in path else "RepoNotFound"

    def _send_file(self, name: str) -> None:
        data = self.files[name]
        headers = {"ETag": f'"{sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if self.command == "GET":
            self.asked.append(f"{name}@{start}" if start else name)
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(data[start:], 206 if start else 200, headers, name)

    def _send(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, name: str = "") -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "GET":
            return
        if name in self.breaks:
            self.wfile.write(body[: self.breaks.pop(name)])
            self.close_connection = True
        elif name in self.stalls:
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.stalls[name].wait(8)
            self.wfile.write(body[half:])
        else:
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[tuple[str, type[Hub]]]:
    """The address of a hub with one model, and its handler, whose facts a test may change."""

    class Served(Hub):
        asked: ClassVar[list[str]] = []
        breaks: ClassVar[dict[str, int]] = {}
        stalls: ClassVar[dict[str, threading.Event]] = {}

    Served.files = files
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as made:
        made.daemon_threads = True
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}", Served
        for event in Served.stalls.values():
            event.set()
        made.shutdown()
        thread.join()
