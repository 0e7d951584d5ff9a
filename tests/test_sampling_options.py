"""How `tc run` samples is what was typed."""

from __future__ import annotations

import json
from pathlib import Path

from commands import Commands


def test_the_narrowest_choice_is_greedy_at_any_temperature(tc: Commands, tiny: Path) -> None:
    def ids(*options: object) -> list[int]:
        model = ("--model", tiny, "--transport", "memory", "--nodes", 1, "--threads", 1, "--max-tokens", 12)
        ended = tc.run("run", *model, "--json", *options, "Hello")
        assert ended.code == 0, ended.err
        found: list[int] = json.loads(ended.out)["token_ids"]
        return found

    greedy = ids("--temperature", 0)
    for narrow in (("--top-p", 0), ("--top-k", 1), ("--min-p", 1)):
        assert ids("--temperature", 2, *narrow, "--seed", 1) == greedy
    assert ids("--temperature", 2, "--top-p", 1, "--seed", 1) != greedy
