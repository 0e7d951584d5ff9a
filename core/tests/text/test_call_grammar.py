"""What a constrained answer may hold, token by token; a token is a letter, except for control tokens."""

from __future__ import annotations

import attrs
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from truecluster._engine.requests import Constraint
from truecluster._text.call_grammar import call_grammar, call_rules
from truecluster._text.constraints import Grammars
from truecluster._text.grammar import Grammar
from truecluster._text.tokenizer import Tokenizer as OurTokenizer
from truecluster._text.tools import FORMS, CallForm, Tool, ToolUse
from truecluster.api import TokenizerData

HERMES, MISTRAL, LLAMA = FORMS
END, MARKED, TAG = 128, 129, 130
SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "maxLength": 5}},
}
WEATHER, CLOCK = Tool(name="weather", parameters=SCHEMA), Tool(name="clock")


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    library = Tokenizer(models.BPE(vocab={chr(i): i for i in range(128)}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = decoders.Fuse()
    library.add_special_tokens([AddedToken(mark, special=True) for mark in ("<end>", "[TOOL_CALLS]", "<|python_tag|>")])
    return Grammars(OurTokenizer(TokenizerData(json=library.to_str(), eos="<end>")))


def holds(grammars: Grammars, form: CallForm, use: ToolUse, text: str, answer: Grammar | None = None) -> bool:
    """Whether every token of ``text`` is allowed, and the end behind it."""
    tokenizer = grammars._tokenizer
    grammar = call_grammar(form, use, answer, tokenizer)
    assert grammar is not None
    constraint = grammars.start(grammar, frozenset({END}))()
    *ids, last = [*tokenizer.encode_guarded(text, "\ufdd0"), END]
    for place, id in enumerate(ids, 1):
        if not allows(constraint, id):
            return False
        if constraint.accept(id):  # nothing but the end may follow
            return place == len(ids)
    return allows(constraint, last)


def allows(constraint: Constraint, id: int) -> bool:
    return bool(constraint.mask()[id >> 3] >> (id & 7) & 1)


def hermes(*objects: str) -> str:
    return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in objects)


PARIS, NOON = '{"name": "weather", "arguments": {"city": "Paris"}}', '{"name": "clock", "arguments": {}}'
LLAMAS = PARIS.replace("arguments", "parameters")
"""What each form has for the same call."""
WRITTEN = [(HERMES, hermes(PARIS)), (MISTRAL, f"[TOOL_CALLS][{PARIS}]"), (LLAMA, LLAMAS)]


@pytest.mark.parametrize(("form", "text"), WRITTEN)
def test_what_is_required_is_a_call_of_a_tool_with_its_arguments(grammars: Grammars, form: CallForm, text: str) -> None:
    use = ToolUse(tools=(WEATHER, CLOCK), required=True)
    assert holds(grammars, form, use, text)
    for wrong in ("Hello", "", "Well: " + text, text + " Done.", text[:-1], text.replace("weather", "other")):
        assert not holds(grammars, form, use, wrong)
    for wrong in (text.replace("Paris", "Parisian"), text.replace('"Paris"', "5"), text.replace("city", "town")):
        assert not holds(grammars, form, use, wrong)


def test_several_calls_are_as_many_as_may_be(grammars: Grammars) -> None:
    several = ToolUse(tools=(WEATHER, CLOCK), required=True)
    one = attrs.evolve(several, single=True)
    for form, text in ((HERMES, hermes(PARIS, NOON, PARIS)), (MISTRAL, f"[TOOL_CALLS][{PARIS}, {NOON}]")):
        assert holds(grammars, form, several, text)
        assert not holds(grammars, form, one, text)


@pytest.mark.parametrize(("form", "text"), WRITTEN)
def test_a_strict_tool_is_called_as_it_must_be_or_not_at_all(grammars: Grammars, form: CallForm, text: str) -> None:
    use = ToolUse(tools=(attrs.evolve(WEATHER, strict=True),))
    wrong = text.replace("Paris", "Parisian")
    assert holds(grammars, form, use, text)
    assert not holds(grammars, form, use, wrong)
    for plain in ("", "Hello\n", "a <tool_cal {[ ", "so: " + LLAMAS):
        assert holds(grammars, form, use, plain)
    marked = f"<|python_tag|>{text}" if form is LLAMA else text
    assert holds(grammars, form, use, f"Let me see. {marked}")
    assert not holds(grammars, form, use, f"Let me see. {marked.replace('Paris', 'Parisian')}")


@pytest.mark.parametrize(("form", "text"), WRITTEN)
def test_what_is_no_call_is_as_the_answers_form_has_it(grammars: Grammars, form: CallForm, text: str) -> None:
    answer = Grammar.json_schema({"type": "object", "properties": {"z": {"type": "integer"}}, "required": ["z"]})
    use = ToolUse(tools=(WEATHER,))
    assert holds(grammars, form, use, text, answer)
    assert holds(grammars, form, use, '{"z": 5}', answer)
    assert not holds(grammars, form, use, "Hello", answer)
    assert not holds(grammars, form, use, '{"z": "5"}', answer)
    assert not holds(grammars, form, attrs.evolve(use, required=True), '{"z": 5}', answer)


def test_what_is_neither_required_nor_strict_is_free(grammars: Grammars) -> None:
    assert call_grammar(HERMES, ToolUse(tools=(WEATHER,)), None, grammars._tokenizer) is None


def test_a_schema_that_is_not_strict_is_kept_as_far_as_it_can_be(grammars: Grammars) -> None:
    odd = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
    use = ToolUse(tools=(Tool(name="f", parameters={**odd, "required": ["a"]}),), required=True)
    assert holds(grammars, HERMES, use, hermes('{"name": "f", "arguments": {"a": ["x"]}}'))
    assert not holds(grammars, HERMES, use, hermes('{"name": "f", "arguments": {"a": 5}}'))


def test_only_what_no_grammar_holds_to_a_schema_needs_no_mark() -> None:
    use = ToolUse(tools=(attrs.evolve(WEATHER, strict=True), CLOCK))
    assert call_rules(HERMES, use, formatted=True).unmarked == {"clock"}
    for form, more in ((HERMES, {"required": True}), (MISTRAL, {}), (LLAMA, {})):
        assert call_rules(form, attrs.evolve(use, **more), formatted=False).unmarked == frozenset()


def test_a_mark_is_enforced_where_the_grammar_has_nothing_else_behind_it() -> None:
    free, strict = ToolUse(tools=(CLOCK,)), ToolUse(tools=(attrs.evolve(CLOCK, strict=True),))
    assert call_rules(HERMES, free, formatted=False).enforced == frozenset()
    assert call_rules(HERMES, free, formatted=True).enforced == {"<tool_call>"}
    assert call_rules(HERMES, strict, formatted=False).enforced == {"<tool_call>"}
    assert call_rules(LLAMA, strict, formatted=False).enforced == {"<|python_tag|>", ""}
    assert call_rules(LLAMA, strict, formatted=True).enforced == {"<|python_tag|>"}
