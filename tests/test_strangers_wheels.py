"""Two plugins written as a stranger would: as wheels, in an environment that has nothing of the source tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_checkpoints import tensors, write_tiny
from wheels import run

STRANGERS = {"mistral": ("architecture", "tcplug_mistral"), "speed": ("planner", "tcplug_planner_speed")}

pytestmark = pytest.mark.timeout(600)  # the wheels may have to be built first, one of them from C, maybe on busy cores


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Mistral model whose window is shorter than what it is asked."""
    weights = {name: tensor for name, tensor in tensors().items() if not name.endswith(".bias")}
    config = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 3}
    return write_tiny(tmp_path_factory.mktemp("models") / "mistral", weights, **config)


@pytest.mark.parametrize("name", STRANGERS)
def test_it_is_found_and_comes_from_its_wheel(environment: Path, name: str) -> None:
    kind, package = STRANGERS[name]
    listed = json.loads(run(environment / "tc", "plugin", "list", "--json"))
    assert listed["failures"] == []
    assert [offer["distribution"] for offer in listed["offers"] if (offer["kind"], offer["name"]) == (kind, name)] == [
        package.replace("_", "-")
    ]
    where = run(environment / "python", "-c", f"import {package}; print({package}.__file__)")
    assert Path(where.strip()).is_relative_to(environment.parent)


@pytest.mark.parametrize("name", STRANGERS)
def test_it_keeps_the_rules_of_its_kind(environment: Path, name: str) -> None:
    assert "keeps the" in run(environment / "tc", "plugin", "check", name)


def theirs(folder: Path, prompt: str, count: int) -> list[int]:
    """The tokens that transformers likes best; a letter is its own number."""
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    ids: list[Any] = [ord(letter) for letter in prompt]
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_two_nodes_split_by_speed_answer_as_transformers_does(environment: Path, mistral: Path, tmp_path: Path) -> None:
    """The model type chooses the architecture; the window of three tokens is shorter than the prompt."""
    options = ["--nodes", "2", "--threads", "1", "--max-tokens", "5", "--work-dir", tmp_path, "--planner", "speed"]
    answer = json.loads(run(environment / "tc", "run", "--model", mistral, *options, "--raw", "--json", "Hello there"))
    assert answer["token_ids"] == theirs(mistral, "Hello there", 5)
