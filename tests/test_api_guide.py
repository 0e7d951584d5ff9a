"""docs/api.md: its tables are those of the code, and its examples run against a cluster of real nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from commands import Served

from truecluster._engine.engine import QUEUE
from truecluster._serve import tables
from truecluster._serve.body import BODY_TIMEOUT, MAX_BODY
from truecluster._serve.fields import Fields
from truecluster._serve.options import OPENAI
from truecluster._serve.parsing import parse_chat, parse_completion
from truecluster._serve.tools import MAX_TOOLS
from truecluster._text.requests import MAX_STOPS
from truecluster.api import RequestError

GUIDE = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
FIELDS, REFUSED = re.search(r"\n## Fields\n(.*?)\n### Refused\n(.*?)\nKeys that", GUIDE, re.DOTALL).groups()  # type: ignore[union-attr]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in FIELDS.splitlines() if line.startswith("| `")]
PARSERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "completions": (parse_completion, {"model": "m", "prompt": "p"}),
    "chat": (parse_chat, {"model": "m", "messages": [{"role": "user", "content": "p"}]}),
}
COLUMN = {"completions": 1, "chat": 2}


def named(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def parse(endpoint: str, **more: Any) -> Any:
    parser, body = PARSERS[endpoint]
    return parser(json.dumps({**body, **more}).encode(), OPENAI)


def honoured(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names that a parser looks for at the top of a body."""
    looked: set[str] = set()

    class Watched(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            looked.add(str(name))
            return super().__contains__(name)

    def watch(fields: Fields, body: Any, path: str = "") -> None:
        plain(fields, body, path)
        if not path:
            fields._left = Watched(fields._left)

    plain = Fields.__init__
    monkeypatch.setattr(Fields, "__init__", watch)
    parse(endpoint)
    return looked - tables.HARMLESS.keys()


@pytest.mark.parametrize("endpoint", PARSERS)
def test_every_field_that_is_honoured_has_a_row_and_no_other(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {row[0].strip("`") for row in ROWS if row[COLUMN[endpoint]] == "yes"}
    assert written == honoured(endpoint, monkeypatch)


def edges() -> Iterable[tuple[str, str, float, float]]:
    for name, *endpoints, values, _ in ROWS:
        found = re.match(r"(-?[\d.]+) to (-?[\d.]+)", values)
        if found is not None:
            low, high = (json.loads(each) for each in found.groups())
            columns = endpoints[:1] if "; in a chat" in values else endpoints
            yield from (
                (each, name.strip("`"), low, high) for each, said in zip(PARSERS, columns, strict=False) if said
            )


@pytest.mark.parametrize(("endpoint", "name", "low", "high"), list(edges()))
def test_ranges_end_where_they_are_said_to(endpoint: str, name: str, low: float, high: float) -> None:
    more = {"logprobs": True} if name == "top_logprobs" else {}
    for fine in (low, high):
        parse(endpoint, **{**more, name: fine})
    step = 1 if isinstance(high, int) else 0.001
    for beyond in (low - step, high + step):
        with pytest.raises(RequestError):
            parse(endpoint, **{**more, name: beyond})


def test_defaults_are_those_that_are_taken() -> None:
    said = {row[0].strip("`"): row[4] for row in ROWS}
    sampling = parse("chat").options.sampling
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty"):
        assert float(said[name]) == getattr(sampling, name), name
    assert (sampling.logit_bias, sampling.seed) == ({}, None)
    assert parse("completions").choices == int(said["n"])


def test_limits_are_those_of_the_code() -> None:
    for words in (
        f"up to {MAX_STOPS} texts",
        f"up to {MAX_TOOLS} functions",
        f"more than {QUEUE} answers would wait",
        f"over {MAX_BODY >> 20} MiB",
        f"over {BODY_TIMEOUT:.0f} seconds",
    ):
        assert words in GUIDE, words


def test_what_is_refused_and_what_there_is_instead() -> None:
    table, _, rest = REFUSED.partition("The others have nothing in their place:")
    instead = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    assert instead == {name: words.replace("'", "`") for name, words in tables.INSTEAD.items()}
    refused = {*tables.COMPLETION, *tables.CHAT, *tables.STREAM_OPTIONS}
    assert instead.keys() | named(rest) == refused
    assert not instead.keys() & named(rest)
    assert tables.HARMLESS.keys() <= named(FIELDS)


def test_the_examples_run(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as a reader would, who has another model."""
    known: dict[str, Any] = {"__name__": "guide"}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        here = block.replace(":8000", f":{served.api}").replace("SmolLM2-135M-Instruct.Q4_1", "tiny")
        exec(compile(here, "docs/api.md", "exec", dont_inherit=True), known)
    told = capsys.readouterr().out
    assert " tokens\n" in told
    assert re.search(r"^paint (red|green)$", told, re.MULTILINE)
    assert re.search(r"^mood='(glad|sad)' strength=[1-9]$", told, re.MULTILINE)
    assert len(known["told"].tokens) == len(known["told"].token_logprobs) > 1
    assert known["told"].token_logprobs[0] is None
    known["client"].close()
