"""What ``tc plugin new`` writes, and what it refuses to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from truecluster._registry import KINDS as OFFERED
from truecluster._registry import Registry, Selection
from truecluster._scaffold import KINDS, create
from truecluster._scaffold.rendering import TEMPLATES, core_range
from truecluster.api import ArchitectureSpec, CheckpointSpec, KernelSpec, PlannerSpec, PluginError, hookimpl


class Plugin:
    @hookimpl
    def truecluster_planners(self):
        yield PlannerSpec(name="greedy", target="elsewhere:Greedy")

    @hookimpl
    def truecluster_architectures(self):
        yield ArchitectureSpec(name="opt", target="elsewhere:Opt", model_types=("opt", "galactica"))

    @hookimpl
    def truecluster_checkpoints(self):
        yield CheckpointSpec(name="torch", target="elsewhere:Torch", forms=("*.pth",))

    @hookimpl
    def truecluster_kernels(self):
        for rank in (1, 3):
            yield KernelSpec(name=f"kernel_{rank}", target="elsewhere:Kernel", rank=rank)


@pytest.fixture
def registry() -> Registry:
    found = Registry(Selection())
    found.register(Plugin(), "tcplug-elsewhere", "3.1")
    return found


def written(kind: str, name: str, into: Path, registry: Registry) -> dict[str, str]:
    made = create(kind, name, into, registry)
    assert made.folder == into / f"tcplug_{name}"
    return {path.as_posix(): (made.folder / path).read_text() for path in made.files}


def test_there_is_a_template_of_every_kind_and_no_other():
    assert set(KINDS) == set(OFFERED) - {"format"}
    assert {folder.name for folder in TEMPLATES.iterdir()} == {*KINDS, "shared"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_complete(kind: str, tmp_path: Path, registry: Registry):
    files = written(kind, "fine", tmp_path, registry)
    package = {"__init__.py", "plugin.py", "py.typed"}
    assert set(files) >= {f"src/tcplug_fine/{name}" for name in package}
    assert set(files) >= {"pyproject.toml", "README.md", "tests/test_contract.py", ".github/workflows/test.yml"}
    assert ("src/tcplug_fine/contract.py" in files) == ("truecluster.contracts" in files["pyproject.toml"])
    assert 'fine = "tcplug_fine.plugin"' in files["pyproject.toml"]
    assert f"tc plugin check {kind}/fine" in files[".github/workflows/test.yml"]
    found = {path.relative_to(tmp_path / "tcplug_fine").as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(files)
    assert os.listdir(tmp_path) == ["tcplug_fine"]


@pytest.mark.parametrize("name", ["x", "a_name_that_is_so_very_long_now1"])
def test_what_is_written_is_in_form_whatever_the_length_of_the_name(name: str, tmp_path: Path, registry: Registry):
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        create(kind, name, tmp_path / kind, registry)
    for command in (["check", "--quiet"], ["format", "--diff", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", tmp_path], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("version", "range"),
    [
        ("0.1.0", ">=0.1.0,<0.2"),
        ("0.9.3", ">=0.9.3,<0.10"),
        ("2.4.0", ">=2.4.0,<3"),
        ("0.2.0.dev1", ">=0.2.0.dev1,<0.3"),
    ],
)
def test_the_core_range_ends_where_an_interface_may_change(version: str, range: str):
    assert core_range(version) == range


def test_a_kernel_gets_the_lowest_rank_that_is_free(tmp_path: Path, registry: Registry):
    files = written("kernel", "fine", tmp_path, registry)
    assert "rank=2," in files["src/tcplug_fine/plugin.py"]


NAMES = {
    "Mine": "it must begin with a letter and have small letters, digits and single underscores, at most 32 characters; "
    "such as my_planner",
    "my-planner": "'my-planner' can't be the name of a plugin",
    "2fast": "'2fast' can't be the name",
    "a__b": "single underscores",
    "a" * 33: "at most 32 characters",
    "": "'' can't be the name",
    "../away": "can't be the name",
    "class": "'class' can't be the name of a plugin: it is a word of Python; take another, my_class",
    "tcplug_mine": "the name 'tcplug_mine' has 'tcplug_' too much: the package gets it by itself; give 'mine'",
    "greedy": "'greedy' is taken: planner 'greedy' of tcplug-elsewhere 3.1 has it",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path, registry: Registry):
    with pytest.raises(PluginError) as caught:
        create("planner", name, tmp_path, registry)
    assert NAMES[name] in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("kind", "name"), [("quantizer", "keep"), ("device", "auto"), ("kernel", "reference")])
def test_a_word_that_means_something_else_is_refused(kind: str, name: str, tmp_path: Path, registry: Registry):
    with pytest.raises(PluginError, match=f"^'{name}' can't be the name of a {kind}: .*; take another, such as my_"):
        create(kind, name, tmp_path, registry)
    assert create("planner", name, tmp_path, registry).files


@pytest.mark.parametrize(("kind", "name"), [("architecture", "galactica"), ("checkpoint", "pth")])
def test_what_another_offer_claims_is_taken(kind: str, name: str, tmp_path: Path, registry: Registry):
    with pytest.raises(PluginError, match=f"'{name}' is taken: {kind} "):
        create(kind, name, tmp_path, registry)


def test_the_name_of_an_installed_distribution_is_taken(tmp_path: Path, registry: Registry, monkeypatch):
    site = tmp_path / "site"
    info = site / "tcplug_old-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: TCPLUG.old\nVersion: 2.0\n")
    (site / "tcplug_stray.py").touch()
    (site / "tcplug_folder").mkdir()
    monkeypatch.syspath_prepend(site)
    with pytest.raises(PluginError, match=r"TCPLUG\.old 2\.0 is installed already; .* pip uninstall TCPLUG\.old"):
        create("planner", "old", tmp_path, registry)
    with pytest.raises(PluginError, match="a module tcplug_stray already"):
        create("planner", "stray", tmp_path, registry)
    assert create("planner", "folder", tmp_path, registry).files


def test_an_unknown_kind_is_answered_with_those_there_are(tmp_path: Path, registry: Registry):
    with pytest.raises(PluginError, match=f"no plugin kind 'plan'; kinds: {', '.join(KINDS)}"):
        create("plan", "mine", tmp_path, registry)
    with pytest.raises(PluginError, match="tc plugin new quantizer NAME makes both"):
        create("format", "mine", tmp_path, registry)


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_nothing_is_overwritten(there: str, tmp_path: Path, registry: Registry):
    folder = tmp_path / "tcplug_mine"
    {"folder": folder.mkdir, "file": folder.touch, "link": lambda: folder.symlink_to("nowhere")}[there]()
    with pytest.raises(PluginError, match=r"tcplug_mine exists already; .* --into"):
        create("planner", "mine", tmp_path, registry)
    assert os.listdir(tmp_path) == ["tcplug_mine"]
    assert not folder.is_dir() or os.listdir(folder) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, registry: Registry):
    with pytest.raises(PluginError, match=r"there is no folder .*absent; make it first"):
        create("planner", "mine", tmp_path / "absent", registry)


def test_nothing_half_written_is_left(tmp_path: Path, registry: Registry, monkeypatch):
    """The disk is full after a few files."""
    write, count = Path.write_text, 0

    def failing(self: Path, *given: object, **named: object) -> int:
        nonlocal count
        count += 1
        if count > 3:
            raise OSError(28, "No space left on device")
        return write(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", failing)
    with pytest.raises(PluginError, match=r"tcplug_mine can't be written: No space left on device; .* --into"):
        create("planner", "mine", tmp_path, registry)
    assert os.listdir(tmp_path) == []
