"""Hub ids: from the cache where it is complete, else from the hub."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from truecluster.api import CheckpointError, OpenOptions

from .fetching import fetch
from .index import INDEX, SINGLE, shard_names
from .wanted import INSTEAD

ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
TIMEOUT = 5.0
"""Seconds until the hub must have answered whether the model exists."""


@attrs.frozen
class HubId:
    """``ORG/NAME`` at a branch, tag or commit; ``None`` is the main branch."""

    id: str
    revision: str | None

    def __str__(self) -> str:
        return self.id if self.revision is None else f"{self.id}@{self.revision}"


def snapshot(reference: str, options: OpenOptions) -> str:
    """The folder of a snapshot; fetches what the cache lacks of it. Raises `CheckpointError`.

    A complete one is taken as it is, without a network, so that a model doesn't change by itself.
    """
    model = parse(reference)
    cache = cache_of(options)
    kept = cached(model, cache)
    lacking = missing(kept) if kept else []
    if kept and not lacking:
        options.say(f"{model} is in the cache, commit {kept.name[:8]}; ORG/NAME@REVISION takes another")
        return str(kept)
    _refuse_offline(model, cache, lacking)
    folder = fetch(_request(model, cache, options), cache / f"models--{model.id.replace('/', '--')}", options)
    options.say(f"{model} is in {folder}")
    return folder


def parse(reference: str) -> HubId:
    """Raises `CheckpointError` for what is no hub id."""
    match = ID.fullmatch(reference)
    if match is None or ".." in (match["revision"] or ""):
        raise CheckpointError(f"model {reference!r} is not of the form ORG/NAME or ORG/NAME@REVISION")
    return HubId(match["id"], match["revision"])


def cache_of(options: OpenOptions) -> Path:
    """Where the hub's client keeps models."""
    from huggingface_hub import constants

    return Path(options.cache_dir or constants.HF_HUB_CACHE).expanduser().absolute()


def cached(model: HubId, cache: Path) -> Path | None:
    """The folder of a cached snapshot, which may lack files."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model.id, "config.json", cache_dir=cache, revision=model.revision)
    except HFValidationError as error:
        raise CheckpointError(f"model {str(model)!r} is no hub id: {error}") from None
    return Path(config).parent if isinstance(config, str) else None


def missing(folder: Path) -> list[str]:
    """The files that a usable snapshot needs and this one lacks."""
    lacking = [] if (folder / "config.json").exists() else ["config.json"]
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")):
        lacking.append("tokenizer.json")
    if (folder / SINGLE).exists():
        return lacking
    if not (folder / INDEX).exists():
        return [*lacking, SINGLE]
    return lacking + [name for name in shard_names(folder) if not (folder / name).exists()]


def unreachable(patience: float) -> str | None:
    """Why nothing can be fetched from the hub; asks it for ``patience`` seconds."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return f"HF_HUB_OFFLINE forbids to fetch models, only those in the cache open; unset it, {INSTEAD}"
    try:
        get_session().head(constants.ENDPOINT, timeout=patience)
    except Exception as error:  # of whichever HTTP library that version of the hub's client has
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        return f"{constants.ENDPOINT} doesn't answer ({reason}); connect, or set HF_ENDPOINT, {INSTEAD}"
    return None


def _refuse_offline(model: HubId, cache: Path, lacking: list[str]) -> None:
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE:
        return
    state = f"lacks {', '.join(lacking[:8])} in the cache {cache}" if lacking else f"is not in the cache {cache}"
    raise CheckpointError(
        f"model {str(model)!r} {state}, and HF_HUB_OFFLINE forbids to fetch it; unset that, {INSTEAD}"
    )


def _request(model: HubId, cache: Path, options: OpenOptions) -> dict[str, object]:
    return {
        "id": model.id,
        "revision": model.revision,
        "cache_dir": str(cache),
        "timeout": TIMEOUT,
        "trust_remote_code": options.trust_remote_code,
    }
