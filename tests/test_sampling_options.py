"""How `tc run` samples is what was typed, else what the model's author says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commands import Commands
from tiny_checkpoints import write_tiny


def ids(tc: Commands, model: Path, *options: object) -> list[int]:
    """The answer's tokens."""
    run = ("run", "--model", model, "--transport", "memory", "--nodes", 1, "--threads", 1, "--max-tokens", 12)
    ended = tc.run(*run, "--json", *options, "Hello")
    assert ended.code == 0, ended.err
    found: list[int] = json.loads(ended.out)["token_ids"]
    return found


def test_the_narrowest_choice_is_greedy_at_any_temperature(tc: Commands, tiny: Path) -> None:
    greedy = ids(tc, tiny, "--temperature", 0)
    for narrow in (("--top-p", 0), ("--top-k", 1), ("--min-p", 1)):
        assert ids(tc, tiny, "--temperature", 2, *narrow, "--seed", 1) == greedy
    assert ids(tc, tiny, "--temperature", 2, "--top-p", 1, "--seed", 1) != greedy


def test_what_is_not_typed_is_the_authors(tc: Commands, tiny: Path, tmp_path: Path) -> None:
    author: dict[str, Any] = {"do_sample": True, "temperature": 2.0, "top_k": 1, "eos_token_id": 131}
    model = write_tiny(tmp_path / "sampled")
    (model / "generation_config.json").write_text(json.dumps(author))
    greedy = ids(tc, tiny, "--temperature", 0)
    assert ids(tc, model) == greedy
    assert ids(tc, model, "--top-k", 0, "--seed", 1) == ids(tc, tiny, "--temperature", 2, "--seed", 1) != greedy
