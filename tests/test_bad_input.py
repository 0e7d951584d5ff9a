"""A user's mistakes: an error that names the thing and the remedy, exit 2, and nothing left half-started."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Commands, Ended


def refused(ended: Ended, tc: Commands, *words: str) -> None:
    """One line that says all of ``words``, before any weight is touched."""
    assert ended.code == 2, ended.err
    assert ended.out == ""
    last = ended.err.splitlines()[-1]
    assert last.startswith("tc: "), ended.err
    for word in words:
        assert word in last
    assert "Traceback" not in ended.err
    assert "packing" not in ended.err
    assert not tc.left()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "qwen3"], ["unknown architecture 'qwen3'", "did you mean 'qwen2'", "pip install tcplug-qwen3"]),
        (["--quant", "int5"], ["unknown quantizer 'int5'", "int4"]),
        (["--planner", "evn"], ["unknown planner 'evn'", "did you mean 'even'"]),
        (["--planner", "even:x"], ["--planner 'even:x'", "NAME:key=value"]),
        (["--planner", "even:x=1"], ["planner 'even'", "'x'"]),
        (["--transport", "quic"], ["unknown transport 'quic'", "tcp"]),
        (["--device", "tpu"], ["device 'tpu'", "cpu"]),
        (["--head", "middle"], ["--head 'middle'", "coordinator or last-stage"]),
        (["--model", "nowhere/"], ["'nowhere/'", "no such file or folder", "a model is one of"]),
        (["--model", "missing.gguf"], ["'missing.gguf'", "no such file or folder"]),
        (["--model", "svn:thing"], ["no plugin opens 'svn:'", "pypi:"]),
        (["--model", "org/name"], ["org/name", "HF_HUB_OFFLINE"]),
        (["--serve"], ["--serve", "no prompt"]),
        (["--raw", "--system", "Be kind."], ["--raw", "--system"]),
        (["--log-level", "loud"], ["--log-level 'loud'", "warning"]),
        (["--api-host", "0.0.0.0"], ["--api-host 0.0.0.0", "127.0.0.1"]),
        (["--stop", ""], ["stop", "empty"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_a_word_that_is_not_known(tc: Commands, tiny: Path, arguments: list[str], words: list[str]) -> None:
    model = [] if "--model" in arguments else ["--model", tiny]
    refused(tc.run("run", *model, *arguments, "Hello"), tc, *words)
