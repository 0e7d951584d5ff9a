"""``python -m tcplug_hf.fetcher``: fetches one model from the hub, as a process that can be killed at any moment.

The hub's client works in threads that can't be stopped. The request is one line of JSON on standard input, whose end
ends this process; lines of JSON go to standard output: ``say``, ``bytes`` to come, at last ``folder`` or ``error``.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from typing import Any

from truecluster.api import CheckpointError

from .index import INDEX, SINGLE, shard_names
from .wanted import INSTEAD, check_weights, small_files


def main() -> None:
    """Serve the one request."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _pass_on_warnings()
    try:
        tell(folder=fetch(**request))
    except CheckpointError as error:
        tell(error=str(error))
    except Exception as error:  # the hub's client raises its own, its HTTP library's and the system's errors
        tell(error=explained(request, error))
    sys.stdout.flush()
    os._exit(0)


def tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def fetch(id: str, revision: str | None, cache_dir: str | None, timeout: float, trust_remote_code: bool) -> str:
    """The snapshot's folder. What is small comes first, so that complete weights mean a complete snapshot."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(id, revision=revision, timeout=timeout, files_metadata=True)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    check_weights(id, sizes)
    place = {"repo_id": id, "revision": revision, "cache_dir": cache_dir, "etag_timeout": timeout}
    folder = _download(place, small_files(sizes, trust_remote_code))
    weights = [SINGLE] if SINGLE in sizes else shard_names(Path(folder))
    lacking = [name for name in weights if not (Path(folder) / name).exists()]
    absent = [name for name in lacking if name not in sizes]
    if absent:
        raise CheckpointError(f"model {id!r}: {INDEX} names {', '.join(absent[:8])}, which the hub doesn't have")
    total = sum(sizes[name] for name in lacking)
    kept = f"; {len(weights) - len(lacking)} are cached already" if len(lacking) < len(weights) else ""
    tell(say=f"fetching {id} from the hub: {len(lacking)} files of weights, {total / 1e6:.1f} MB{kept}", bytes=total)
    return _download(place, weights)


def _download(place: Mapping[str, Any], names: Iterable[str]) -> str:
    from huggingface_hub import snapshot_download

    return str(snapshot_download(**place, allow_patterns=[escape(name) for name in names]))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


class _Telling(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(say=" ".join(record.getMessage().split()))


def _pass_on_warnings() -> None:
    """The client's words, such as that it goes on after a broken connection."""
    from huggingface_hub.utils.logging import get_logger

    logger = get_logger("huggingface_hub")
    logger.handlers, logger.propagate = [_Telling(logging.WARNING)], False


def explained(request: Mapping[str, Any], error: Exception) -> str:
    """What is wrong, and what to do about it."""
    from huggingface_hub import errors

    revision = request["revision"]
    what = f"model {request['id']!r}" + (f" at revision {revision!r}" if revision else "")
    login = "log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return f"{what} is gated: accept its terms on its page, then {login}; {INSTEAD}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{what} has no such revision on the hub; check the name after the @"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{what} is not on the hub, or private; check the name, or {login}; {INSTEAD}"
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        return f"{what}: the hub refuses this token; check HF_TOKEN, or {login}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{what} doesn't fit the disk of the cache; make room, or name another folder with --hf-cache-dir"
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"{what} is not complete in the cache, and fetching it failed ({reason}); check the network, {INSTEAD}"


if __name__ == "__main__":
    main()
