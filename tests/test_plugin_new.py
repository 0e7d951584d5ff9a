"""What an author starts from keeps its contract before the first line is changed: one plugin of each kind."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from environments import Environment
from tiny_checkpoints import CONFIG, tensors, tokenizer_json

from truecluster._registry import Registry
from truecluster._scaffold import KINDS, create
from truecluster._scaffold.rendering import TEMPLATES

pytestmark = pytest.mark.timeout(300)  # a whole contract is checked, maybe on busy cores
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib")
TESTS_OF = """
import runpy, sys
for file in sys.argv[1:]:
    print(*(value.offer for name, value in runpy.run_path(file).items() if name.startswith("Test")))
"""
"""Prints, for each file, the offers that its test classes are about."""


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The author's folder."""
    return tmp_path_factory.mktemp("author")


@pytest.fixture(scope="module")
def workshop(author: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One new plugin of each kind, installed; pip is called once since each call costs seconds."""
    workshop, registry = Environment.create(tmp_path_factory.mktemp("environment")), Registry.installed()
    for kind in KINDS:
        create(kind, f"fresh_{kind}", author, registry)
    workshop.install(*(author / f"tcplug_fresh_{kind}" for kind in KINDS))
    return workshop


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_keeps_its_contract(kind: str, workshop: Environment, tmp_path: Path) -> None:
    checked = workshop.tc("plugin", "check", f"tcplug-fresh-{kind}", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_new_plugins_of_every_kind_answer_together(workshop: Environment, tmp_path: Path) -> None:
    """A model in the new container, run by the new architecture over the new transport, and so on; greedy."""
    config = {**CONFIG, "model_type": "fresh_architecture", "attention_bias": False}
    weights = {name: each.float() for name, each in tensors().items() if not name.endswith("_proj.bias")}
    model = write_fresh(tmp_path / "tiny.fresh_checkpoint", config, weights)
    chosen = [f"--{kind}=fresh_{kind}" for kind in ("planner", "transport")]
    chosen += ["--quant=fresh_quantizer", "--device=cpu:0", "--nodes=2", "--threads=1", f"--work-dir={tmp_path}"]
    asked = ["--raw", "--temperature=0", "--max-tokens=8", "--json", "Hello"]
    ran = workshop.tc("run", "--model", model, *chosen, *asked, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["token_ids"] == expected(config, weights, list(map(ord, "Hello")), 8)


def write_fresh(path: Path, config: dict[str, Any], weights: dict[str, Any]) -> Path:
    """A file as the template's ``header.py`` describes it."""
    described = {name: ["fp32", list(each.shape)] for name, each in weights.items()}
    fields = {"config": config, "tokenizer": json.loads(tokenizer_json()), "tensors": described}
    header = json.dumps(fields).encode()
    data = b"".join(each.numpy().tobytes() for each in weights.values())
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def expected(config: dict[str, Any], weights: dict[str, Any], prompt: list[int], count: int) -> list[int]:
    """What transformers' Llama answers with every matrix rounded to 8 bits a weight, a scale per row."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    network = LlamaForCausalLM(LlamaConfig(**{**config, "model_type": "llama"})).eval()
    rounded = {}
    for name, each in weights.items():
        scale = each.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
        rounded[name] = (each / scale).round() * scale if each.dim() == 2 else each
    network.load_state_dict(rounded)
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_the_command_says_what_it_made_and_what_comes_next(workshop: Environment, tmp_path: Path) -> None:
    made = workshop.tc("plugin", "new", "planner", "another", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    first, *files, now, install, check = made.stdout.splitlines()
    assert first == f"made tcplug_another, {len(files)} files:"
    assert "  src/tcplug_another/planner.py" in files
    assert [now, install, check] == ["now:", "  pip install -e tcplug_another", "  tc plugin check planner/another"]


@pytest.mark.timeout(600)  # the wheels may have to be built first, one of them from C, maybe on busy cores
def test_the_wheel_of_the_core_has_every_template(wheels: list[Path]) -> None:
    wheel = next(each for each in wheels if each.name.startswith("truecluster-"))
    package = TEMPLATES.parents[2]
    written = {path.relative_to(package).as_posix() for path in TEMPLATES.rglob("*") if path.is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "/templates/" in name}
    assert packed == written


def test_a_name_is_taken_once_it_is_installed(workshop: Environment, tmp_path: Path) -> None:
    again = workshop.tc("plugin", "new", "planner", "fresh_planner", "--into", tmp_path, cwd=tmp_path)
    assert (again.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "'fresh_planner' is taken: planner 'fresh_planner' of tcplug-fresh-planner 0.1.0" in again.stderr


def test_every_package_has_tests_and_they_are_its_contract(workshop: Environment, author: Path) -> None:
    """Read in one process, since each would import torch."""
    files = {kind: author / f"tcplug_fresh_{kind}" / "tests" / "test_contract.py" for kind in KINDS}
    found = workshop.python("-c", TESTS_OF, *files.values(), cwd=author.parent)
    assert found.returncode == 0, found.stderr
    offers = [set(line.split()) for line in found.stdout.splitlines()]
    assert offers == [{f"fresh_{kind}"} for kind in KINDS]


def test_the_tests_of_a_package_find_a_mistake(workshop: Environment, author: Path) -> None:
    """That they pass before is shown where the guide is followed."""
    folder = author / "tcplug_fresh_planner"
    source = folder / "src" / "tcplug_fresh_planner" / "planner.py"
    source.write_text(source.read_text().replace("start = span.stop", "start = span.stop + 1"))
    broken = workshop.python(*PYTEST, cwd=folder)
    assert broken.returncode == 1
    assert "truecluster.testing.rules.Broken" in broken.stdout


def test_what_is_removed_leaves_nothing(workshop: Environment, tmp_path: Path) -> None:
    """The last test: nothing of the environment is used after it."""
    workshop.pip("uninstall", "--yes", *(f"tcplug-fresh-{kind}" for kind in KINDS))
    listed = json.loads(workshop.tc("plugin", "list", "--json", cwd=tmp_path).stdout)
    assert not [offer["name"] for offer in listed["offers"] if offer["name"].startswith("fresh_")]
    assert listed["failures"] == []
