from __future__ import annotations

import json
import random
from typing import Any

import pytest

from truecluster._text.calls import CallParser
from truecluster._text.tools import FORMS, CallRules, ToolCall

HERMES, MISTRAL, LLAMA = FORMS
NAMES = frozenset({"f", "get_weather"})

Parts = list[str | ToolCall]


def parsed(form: object, pieces: list[str], **rules: Any) -> Parts:
    """The parts, with texts that follow each other joined."""
    parser = CallParser(CallRules(form=form, names=NAMES, **rules))  # type: ignore[arg-type]
    parts = [part for piece in pieces for part in parser.push(piece)] + parser.finish()
    joined: Parts = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    assert parser.called == any(isinstance(part, ToolCall) for part in parts)
    return joined


def call(arguments: str = "{}", name: str = "f") -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def hermes(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


NASTY = '{"a":"x}"}'
CASES = [
    (HERMES, hermes('{"name":"f","arguments":{"a":"x}"}}'), [call(NASTY)]),
    (HERMES, hermes('{"name": "f", "arguments": {}}'), [call()]),
    (HERMES, hermes('{"name": "f"}'), [call()]),
    (HERMES, hermes('{"name": "f", "arguments": null}'), [call()]),
    (
        HERMES,
        hermes('{"arguments": {"b": [1.50, {"c": "é\\n\\u00e9"}]}, "name": "f"}'),
        [call('{"b": [1.50, {"c": "é\\n\\u00e9"}]}')],
    ),
    (
        HERMES,
        hermes('{"name": "f", "arguments": {"a": "</tool_call> \\"{ <tool_call>"}}'),
        [call('{"a": "</tool_call> \\"{ <tool_call>"}')],
    ),
    (
        HERMES,
        "Let me see. \n" + hermes('{"name":"f"}') + "\n" + hermes('{"name":"get_weather"}') + " \n",
        ["Let me see.", call(), call(name="get_weather")],
    ),
    (HERMES, hermes('{"name":"f"}') + "\n Done. ", [call(), "Done. "]),
    (HERMES, '<tool_call>{"name":"f"}</tool_call>', [call()]),
    (HERMES, '<tool_call>{"name":"f"}', [call()]),
    (HERMES, '<tool_call>{"name":"f"}\n</tool_c', [call()]),
    (
        MISTRAL,
        '[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}}, {"name": "get_weather", "arguments": {}}]',
        [call('{"a": "]"}'), call(name="get_weather")],
    ),
    (MISTRAL, 'Hm. [TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "123456789"}]', ["Hm.", call()]),
    (LLAMA, '{"name": "f", "parameters": {"a": "}"}}', [call('{"a": "}"}')]),
    (LLAMA, '\n<|python_tag|>{"name": "f", "parameters": {}}\n', [call()]),
    (LLAMA, 'I call: <|python_tag|>{"name": "f", "parameters": {}}', ["I call:", call()]),
]

TEXTS = [
    (HERMES, ""),
    (HERMES, " Hello <tool_cal \n"),
    (HERMES, hermes('{"name":"f","arguments":{"a":')),
    (HERMES, hermes('{"name":"f","arguments":{"a": nothing}}')),
    (HERMES, hermes('{"name":"f","arguments":{"a":1}')),
    (HERMES, hermes('{"name":"f","arguments":{"a":NaN}}')),
    (HERMES, hermes('{"name":"f","arguments":{"a":"x\ny"}}')),
    (HERMES, hermes('{"name":"f","arguments":"a"}')),
    (HERMES, hermes('{"name":"unknown","arguments":{}}')),
    (HERMES, hermes('{"name":["f"]}')),
    (HERMES, hermes('{"arguments":{}}')),
    (HERMES, hermes('{"name":"f"]')),
    (HERMES, hermes("[]")),
    (HERMES, hermes("[1]")),
    (HERMES, hermes('"f"')),
    (HERMES, hermes("f()")),
    (HERMES, hermes("")),
    (HERMES, '<tool_call>{"name":"f"} is how one calls'),
    (HERMES, "<tool_call>" + '{"a":' * 5000),
    (HERMES, "<tool_call>" + '{"a":' * 5000 + "1" + "}" * 5000 + "</tool_call>"),
    (HERMES, "<tool_call><tool_call>"),
    (MISTRAL, '[TOOL_CALLS][{"name": "f", "arguments": {}}'),
    (MISTRAL, '[TOOL_CALLS][{"name": "f", "arguments": {}}] I called it.'),
    (LLAMA, '{"name": "f", "parameters": {}} is what I would write'),
    (LLAMA, '{"name": "other", "parameters": {}}'),
    (LLAMA, ' The answer is {"name": "f", "parameters": {}}'),
    (LLAMA, '{"temperature": 5}'),
]


@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_calls_are_found_wherever_the_text_is_cut(form: object, text: str, expected: Parts) -> None:
    """API-34: as a whole, letter by letter, and in two at every place."""
    for pieces in ([text], list(text), *([text[:i], text[i:]] for i in range(1, len(text)))):
        assert parsed(form, pieces) == expected


@pytest.mark.parametrize(("form", "text"), TEXTS)
def test_what_is_no_call_is_text_exactly_as_written(form: object, text: str) -> None:
    """API-34: malformed calls, and calls of what isn't there."""
    few = list(range(1, len(text), max(1, len(text) // 100)))
    for pieces in ([text], list(text), *([text[:i], text[i:]] for i in few)):
        assert parsed(form, pieces) == ([text] if text else [])


BARE = '{"name": "f", "arguments": {"a": "`}"}}'
UNMARKED = [
    (BARE, [call('{"a": "`}"}')]),
    ('\n {\n  "arguments": {},\n  "name": "f"}\n\n', [call()]),
    (BARE + "\n</tool_call>", [call('{"a": "`}"}')]),
    (BARE + "</tool_call> \n" + hermes('{"name":"get_weather"}'), [call('{"a": "`}"}'), call(name="get_weather")]),
    (f"```json\n{BARE}\n```", [call('{"a": "`}"}')]),
    (f"\n```json{BARE}```\n ", [call('{"a": "`}"}')]),
    (BARE + "\n" + hermes('{"name":"f"}'), [BARE, call()]),
    (f"```json\n{BARE}\n```\n" + hermes('{"name":"f"}'), [f"```json\n{BARE}\n```", call()]),
]
NOT_UNMARKED = [
    BARE + " is what I would write",
    BARE + "\n" + BARE,
    BARE + "\n```",
    "So: " + BARE,
    f"[{BARE}]",
    BARE[:-1],
    '{"name": "f"}',
    '{"name": "f", "arguments": "a"}',
    '{"name": "get_weather", "arguments": {}}',
    '{"name": "Bob", "arguments": {}}',
    '{"city": "Paris", "name": "f", "arguments": {}}',
    f"```json\n{BARE}\n",
    f"```json\n{BARE}\n``` It calls f.",
    f"```json\n{BARE}\n</tool_call>",
    f"```json\n{BARE}\n{BARE}\n```",
    f"```\n{BARE}\n```",
    f"```jsonc\n{BARE}\n```",
    "\n ```js",
    " \n",
]


@pytest.mark.parametrize(("text", "expected"), UNMARKED)
def test_a_call_that_is_the_whole_answer_needs_no_mark(text: str, expected: Parts) -> None:
    """Nor one in a fence; only what has the form's mark, or its end, has something behind it."""
    for pieces in ([text], list(text), *([text[:i], text[i:]] for i in range(1, len(text)))):
        assert parsed(HERMES, pieces, unmarked=NAMES) == expected


@pytest.mark.parametrize("text", NOT_UNMARKED)
def test_what_only_begins_like_a_call_is_text(text: str) -> None:
    for pieces in ([text], list(text), *([text[:i], text[i:]] for i in range(1, len(text)))):
        assert parsed(HERMES, pieces, unmarked=frozenset({"f"})) == [text]


def test_json_that_is_no_call_is_not_held_back() -> None:
    parser = CallParser(CallRules(form=HERMES, names=NAMES, unmarked=NAMES))
    assert parser.push('{"na') == []
    assert parser.push('tion": ') == ['{"nation":']


@pytest.mark.parametrize(
    "text",
    ["<tool_ca", "<tool_call>\n", '<tool_call>\n{"name":', hermes(BARE)[:-14], hermes(BARE) + "\n<tool_call>\n{"],
)
def test_the_beginning_of_a_call_that_must_be_is_no_text(text: str) -> None:
    expected = [call('{"a": "`}"}')] if "</tool_call>" in text else []
    for pieces in ([text], list(text)):
        assert parsed(HERMES, pieces, required=True) == expected


def test_nor_is_what_a_grammar_allows_behind_a_mark_alone() -> None:
    for form, text, marks in (
        (HERMES, 'So. \n<tool_call>\n{"na', {"<tool_call>"}),
        (LLAMA, 'So. <|python_tag|>{"name": "f"', {"<|python_tag|>", ""}),
    ):
        for pieces in ([text], list(text)):
            assert parsed(form, pieces, enforced=frozenset(marks)) == ["So."]
    assert parsed(HERMES, ["So. <tool_ca"], enforced=frozenset({"<tool_call>"})) == ["So. <tool_ca"]
    assert parsed(LLAMA, ['{"na'], enforced=frozenset({"<|python_tag|>", ""})) == []
    assert parsed(LLAMA, ['{"na'], enforced=frozenset({"<|python_tag|>"})) == ['{"na']


def test_a_malformed_call_hides_none_behind_it() -> None:
    good = hermes('{"name":"f"}')
    for bad in ('{"name":"f","arguments":{"a":"x"', '{"name":"f","arguments":{"a":"x', "f()", '{"name":"g"}'):
        text = hermes(bad) + "\n" + good
        for pieces in ([text], list(text)):
            assert parsed(HERMES, pieces) == [hermes(bad), call()]


def test_only_what_may_become_a_call_is_held_back() -> None:
    parser = CallParser(CallRules(form=HERMES, names=NAMES))
    assert parser.push("One ") == ["One"]
    assert parser.push("two <tool") == [" two"]
    assert parser.push("s> ") == [" <tools>"]
    assert parser.push('<tool_call>{"name": "f", ') == []
    assert parser.push('"arguments": {}}') == []
    assert parser.push("</tool_call>") == [call()]


def test_a_single_call_ends_the_answer() -> None:
    text = "So: " + hermes('{"name":"f"}') + hermes('{"name":"get_weather"}') + " And"
    for pieces in ([text], list(text)):
        assert parsed(HERMES, pieces, single=True) == ["So:", call()]
    both = '[TOOL_CALLS][{"name": "f"}, {"name": "get_weather"}]'
    assert parsed(MISTRAL, [both], single=True) == [call()]


def test_the_answer_does_not_depend_on_the_pieces() -> None:
    """Of whatever a model may write: marks, brackets and quotes in any order."""
    draw = random.Random(11)
    words = [
        "<tool_call>",
        "</tool_call>",
        '{"name":"f"',
        ',"arguments":',
        "{",
        "}",
        '"',
        "\\",
        "[",
        "]",
        " ",
        "x",
        "\n",
    ]
    words += ['{"name":"f","arguments":{"a":"}"}}', "<tool_call>\n", "<", "```json", "```"]
    for unmarked in [frozenset(), NAMES] * 2000:
        text = "".join(draw.choices(words, k=draw.randint(1, 14)))
        cuts = sorted(draw.sample(range(len(text) + 1), min(3, len(text))))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        whole = parsed(HERMES, [text], unmarked=unmarked)
        assert parsed(HERMES, pieces, unmarked=unmarked) == whole
        for part in whole:
            assert part in text if isinstance(part, str) else isinstance(json.loads(part.arguments), dict)
        if not any(isinstance(part, ToolCall) for part in whole):
            assert whole == [text]
