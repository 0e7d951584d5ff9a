"""The index of first-party plugins is what their metadata says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "docs" / "write_plugins_index.py"


def test_the_index_is_current() -> None:
    spec = importlib.util.spec_from_file_location("write_plugins_index", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.INDEX.read_text() == script.index(), "write it anew with make plugins-index"
