"""Tools of a cluster of real nodes: a random model calls what it must, since nothing else is allowed to it."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tiny_checkpoints import END, TURN_END

COLOURS = ["red", "green", "blue"]
PAINT: Any = {
    "type": "function",
    "function": {
        "name": "paint",
        "description": "Paints a wall.",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": COLOURS}, "layers": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["colour", "layers"],
            "additionalProperties": False,
        },
    },
}
REST: Any = {"type": "function", "function": {"name": "rest", "parameters": {"type": "object", "maxProperties": 0}}}
ASKED: list[Any] = [{"role": "user", "content": "Paint it."}]
NAMED: Any = {"type": "function", "function": {"name": "paint"}}


def ask(official: openai.OpenAI, **body: Any) -> Any:
    body = {"messages": ASKED, "tools": [PAINT, REST], "temperature": 1.5, "max_tokens": 200, **body}
    return official.chat.completions.create(**{"model": "tiny", **body})


def assert_painted(call: Any) -> None:
    arguments = json.loads(call.function.arguments)
    assert (call.type, call.function.name, arguments.keys()) == ("function", "paint", {"colour", "layers"})
    assert arguments["colour"] in COLOURS
    assert 1 <= arguments["layers"] <= 9


def test_a_named_tool_is_called_once_in_every_choice(official: openai.OpenAI) -> None:
    choices = ask(official, tool_choice=NAMED, n=4, seed=3).choices
    for choice in choices:
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        [call] = choice.message.tool_calls
        assert_painted(call)
    assert len({choice.message.tool_calls[0].function.arguments for choice in choices}) > 1


@pytest.mark.parametrize("choice", [NAMED, "required"])
def test_a_stream_has_the_calls_of_the_whole_answer(official: openai.OpenAI, choice: Any) -> None:
    """API-34: with the pieces put together by hand, and by the client."""
    body: dict[str, Any] = {"tool_choice": choice, "seed": 8, "parallel_tool_calls": False}
    [call] = ask(official, **body).choices[0].message.tool_calls
    expected = call.function.name, call.function.arguments
    chunks = [chunk.choices[0] for chunk in ask(official, **body, stream=True)]
    pieces = [piece for chunk in chunks for piece in chunk.delta.tool_calls or []]
    assert pieces[0].function.name == expected[0]
    assert "".join(piece.function.arguments for piece in pieces) == expected[1]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == ""
    assert chunks[-1].finish_reason == "tool_calls"
    more: Any = {"model": "tiny", "messages": ASKED, "tools": [PAINT, REST], "temperature": 1.5, **body}
    with official.chat.completions.stream(**more) as stream:
        [put_together] = stream.get_final_completion().choices[0].message.tool_calls or []
    assert (put_together.function.name, put_together.function.arguments) == expected


def test_a_call_that_must_be_and_is_cut_is_no_content(official: openai.OpenAI) -> None:
    body: dict[str, Any] = {"tool_choice": "required", "max_tokens": 20}
    choice = ask(official, **body).choices[0]
    assert (choice.message.content or "", choice.message.tool_calls, choice.finish_reason) == ("", None, "length")
    found = [chunk.choices[0] for chunk in ask(official, **body, stream=True)]
    assert "".join(each.delta.content or "" for each in found) == ""
    assert found[-1].finish_reason == "length"


def test_a_call_without_its_mark_is_one(official: openai.OpenAI) -> None:
    """Written by a model that is held to JSON which happens to be a call, and would rather write no mark."""
    properties = {"name": {"const": "paint"}, "arguments": PAINT["function"]["parameters"]}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}
    body: dict[str, Any] = {"response_format": form, "logit_bias": {str(ord("<")): -100}, "seed": 4}
    choice = ask(official, **body).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    [call] = choice.message.tool_calls
    assert_painted(call)
    pieces = [
        piece for chunk in ask(official, **body, stream=True) for piece in chunk.choices[0].delta.tool_calls or []
    ]
    assert "".join(piece.function.arguments or "" for piece in pieces) == call.function.arguments


def test_several_calls_are_told_apart(official: openai.OpenAI) -> None:
    """A model that would rather not end goes on calling until it may not say more."""
    reluctant = {str(END): -100, str(TURN_END): -100}
    answer = ask(official, tool_choice="required", tools=[REST], max_tokens=300, logit_bias=reluctant).choices[0]
    calls = answer.message.tool_calls
    assert all((call.function.name, json.loads(call.function.arguments)) == ("rest", {}) for call in calls)
    assert len({call.id for call in calls}) == len(calls) > 1


def test_a_strict_tool_leaves_text_free(official: openai.OpenAI) -> None:
    strict = {**PAINT, "function": {**PAINT["function"], "strict": True}}
    free = ask(official, tool_choice="none", seed=5, max_tokens=30).choices[0]
    assert ask(official, tools=[strict], seed=5, max_tokens=30).choices[0].message.content
    assert (free.finish_reason, free.message.tool_calls) == ("length", None)


def test_a_conversation_goes_on_after_a_call(official: openai.OpenAI) -> None:
    """API-22: with the answer's message as it came."""
    message = ask(official, tool_choice=NAMED).choices[0].message
    result: Any = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "done"}
    following = ask(official, messages=[*ASKED, message, result], tool_choice="none", max_tokens=5)
    arguments = json.dumps(json.loads(message.tool_calls[0].function.arguments))
    written = f'<tool_call>\n{{"name": "paint", "arguments": {arguments}}}\n</tool_call>'
    turns = ["<s>user:Paint it.<e>", f"<s>assistant:{written}<e>", "<s>tool:done<e>", "<s>assistant:"]
    letters = len("".join(turns).replace("<s>", "s").replace("<e>", "e"))
    assert following.usage.prompt_tokens == letters


def test_a_schema_that_cannot_be_enforced_is_named(official: openai.OpenAI) -> None:
    odd = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    function = {"name": "f", "parameters": odd, "strict": True}
    with pytest.raises(openai.BadRequestError, match="uniqueItems") as refused:
        ask(official, tools=[{"type": "function", "function": function}])
    assert refused.value.param == "tools[0].function.parameters"
