"""``tc doctor`` on a machine where much is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_a_machine_where_much_is_broken_is_looked_at_to_the_end(tmp_path: Path) -> None:
    info = tmp_path / "tcplug_bad-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tcplug-bad\nVersion: 3.0\n")
    (info / "entry_points.txt").write_text("[truecluster.plugins]\nbad = tcplug_bad\n")
    (tmp_path / "tcplug_bad.py").write_text("import no_such_module\n")
    (tmp_path / "cache").write_text("a file where a folder should be")
    broken = {
        "PYTHONPATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_EXTRA_INDEX_URL": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "truecluster", "doctor", "--json"],
        env={**os.environ, **broken},
        capture_output=True,
        text=True,
        timeout=110,
    )
    report = json.loads(done.stdout)
    found = {(each["area"], each["name"]): each for each in report["findings"]}
    assert (done.returncode, report["healthy"]) == (1, False)
    assert "No module named 'no_such_module'" in found["plugins", "tcplug-bad"]["text"]
    assert {key for key, each in found.items() if each["state"] == "fail"} >= {
        ("plugins", "tcplug-bad"),
        ("folders", "packed weights"),
        ("models", "pypi downloads"),
    }
    assert found["models", "hf"]["text"].startswith("HF_HUB_OFFLINE forbids")
    assert "can't be reached" in found["models", "pypi"]["text"]
    assert found["devices", "cpu"]["state"] in ("ok", "warn")
    assert all(each["remedy"] for each in report["findings"] if each["state"] != "ok")
