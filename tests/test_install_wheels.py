"""What a user gets from an index: wheels, installed side by side, with nothing of the source tree on the path."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from wheels import MANIFESTS, run

pytestmark = pytest.mark.timeout(600)  # a dozen wheels are built, one of them from C, maybe on busy cores

RESOLVE_ALL = """
from truecluster._registry import KINDS, Registry
registry = Registry.installed()
for kind in KINDS:
    for offer in registry.offers(kind):
        print(kind, offer.spec.name, kind == "quantizer" or registry.resolve(kind, offer.spec.name).__module__)
print("unavailable", dict(registry.kernels().unavailable))
"""


def test_there_is_a_wheel_of_every_package_and_it_says_that_it_is_typed(wheels: list[Path]) -> None:
    assert len(wheels) == len(MANIFESTS)
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith("/py.typed") for name in names), wheel.name
        assert not any("tests/" in name for name in names), wheel.name


def test_the_page_is_in_the_wheel(wheels: list[Path]) -> None:
    folder = Path(__file__).parents[1] / "core" / "src" / "truecluster" / "_serve" / "page"
    core = next(zipfile.ZipFile(wheel) for wheel in wheels if wheel.name.startswith("truecluster-"))
    packed = {name.rpartition("/")[2] for name in core.namelist() if name.startswith("truecluster/_serve/page/")}
    assert packed == {file.name for file in folder.iterdir()} >= {"index.html", "main.js", "page.css"}


def test_installed_plugins_offer_what_the_source_tree_offers(environment: Path) -> None:
    installed = json.loads(run(environment / "tc", "plugin", "list", "--json"))
    assert installed["failures"] == []
    assert installed == json.loads(run(sys.executable, "-m", "truecluster", "plugin", "list", "--json"))
    named = {(offer["kind"], offer["name"]) for offer in installed["offers"]}
    assert named >= {
        ("architecture", "qwen2"),
        ("architecture", "llama"),
        ("quantizer", "fp16"),
        ("quantizer", "int8"),
        ("quantizer", "int4"),
        ("transport", "tcp"),
        ("transport", "memory"),
        ("planner", "even"),
        ("device", "cpu"),
        ("device", "cuda"),
        ("device", "mps"),
    }
    assert {offer["distribution"] for offer in installed["offers"]} == {
        manifest.parent.name.replace("_", "-") for manifest in MANIFESTS if manifest.parent.name != "core"
    }


def test_every_offer_resolves_from_the_wheels(environment: Path) -> None:
    lines = run(environment / "python", "-c", RESOLVE_ALL).splitlines()
    assert len(lines) > 15
    assert lines[-1] == "unavailable {}" or shutil.which("cc") is None


def test_two_workers_answer_from_the_wheels(environment: Path, tiny: Path, tmp_path: Path) -> None:
    """The workers are interpreters of that environment too."""
    options = ("--nodes", "2", "--threads", "1", "--max-tokens", "4", "--work-dir", tmp_path, "--json")
    answer = json.loads(run(environment / "tc", "run", "--model", tiny, *options, "Hello"))
    assert len(answer["token_ids"]) == 4
    assert [stage["node"] for stage in answer["plan"]["stages"]][1:3] == ["worker-1", "worker-2"]
