"""Models kept out of wheels, per distribution and version; what is found is checked before it is used."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

RECORD = "wheel.json"
MODEL = "model"
CHUNK = 1 << 20


@attrs.frozen
class Cache:
    """``root/VERSION`` holds ``wheel.json`` and the model under its own name."""

    root: Path

    @classmethod
    def at(cls, cache_dir: str | None, distribution: str) -> Cache:
        """Under ``cache_dir``, else under the user's cache folder."""
        if cache_dir is not None:
            return cls(Path(cache_dir).expanduser() / "wheels" / distribution)
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(home) / "truecluster" / "wheels" / distribution)

    def find(self, version: str | None) -> Path | None:
        """The model of a version, or of the one kept last; ``None`` where there is none or it was changed."""
        for folder in self._versions(version):
            model = _checked(folder)
            if model is not None:
                return model
        return None

    def keep(self, wheel: Path, unpacked: Path, model: PurePosixPath) -> Path:
        """Move an unpacked model in, all or nothing; ``unpacked`` lies on the same disk. Returns the model's path."""
        name, version = wheel.name.split("-")[:2]
        place = unpacked.with_name("kept")
        place.mkdir()
        relative = MODEL / model if model.suffix else PurePosixPath(name)
        unpacked.rename(place / relative.parts[0])
        record = {"wheel": wheel.name, "sha256": _sha256(wheel), "model": str(relative), "files": _hashes(place)}
        (place / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        final = self.root / version
        if final.exists() and _checked(final) is None:
            shutil.rmtree(final)
        if not final.exists():
            _rename_unless_there(place, final)
        return final / relative

    def _versions(self, version: str | None) -> list[Path]:
        records = sorted(self.root.glob(f"*/{RECORD}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        folders = [record.parent for record in records]
        return [folder for folder in folders if version is None or _plain(folder.name) == _plain(version)]


def _plain(version: str) -> str:
    """Versions that differ in zeros at the end are the same (PEP 440)."""
    return re.sub(r"(\.0)+$", "", version.lower())


def _rename_unless_there(place: Path, final: Path) -> None:
    """Another process may have put the same model there meanwhile; theirs is as good."""
    try:
        place.rename(final)
    except OSError:
        if not final.exists():
            raise


def _checked(folder: Path) -> Path | None:
    """The model's path, if every file still has the hash that was recorded."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        intact = record["files"] == _hashes(folder)
        return folder / record["model"] if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / RECORD)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
