"""An API without a key is this machine's alone, also where a page of somebody else's makes a browser ask it."""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import NotLocal, describe

_HOST = re.compile(r"(?:\[([^][]+)\]|([^:]+))(?::[0-9]*)?")


class LocalOnly:
    """An application that is asked only under names of this machine's own.

    A browser says in ``Host`` which name it looked up. Whoever owns a name can let it lead here (DNS rebinding), and
    the browser would then hand their page what is answered. No browser leaves the header out.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        answer = self._app if all(map(_is_local, hosts)) else describe(NotLocal()).response()
        await answer(scope, receive, send)


def _is_local(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and _is_loopback((found[1] or found[2]).lower())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
