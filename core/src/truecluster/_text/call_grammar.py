"""Grammars of answers that call tools, so that what must be called is called, with arguments as they must be."""

from __future__ import annotations

import json
import re

from .control import ControlToken, guard_for
from .grammar import Grammar, json_rule
from .tokenizer import Tokenizer
from .tools import CallForm, CallRules, Tool, ToolUse


def call_grammar(form: CallForm, use: ToolUse, answer: Grammar | None, tokenizer: Tokenizer) -> Grammar | None:
    """What holds for an answer; ``None`` where it may be any text. ``answer``: what holds for one without calls.

    The schema of a tool that isn't strict is kept as far as it can be. Raises `RequestError` for what is too large.
    """
    begin = _written(form.begin, tokenizer)
    if use.required:
        start = ["start: calls"]
    elif answer is not None:
        start = ["start: calls | answer", f"answer: %json {_schema_of(answer)}"]
    elif any(tool.strict for tool in use.tools):
        start = _text_then_calls(form, begin)
    else:
        return None
    rules = [*start, f"calls: {'' if form.bare else begin} inside", *_inside(form, use, tokenizer)]
    return Grammar.lark("\n".join(rules), "tools")


def call_rules(form: CallForm, use: ToolUse, formatted: bool) -> CallRules:
    """What counts as a call in an answer that `call_grammar` holds for; ``formatted``: one without calls has a form.

    A strict tool is called with the mark, behind which its arguments are held to its schema.
    """
    free = not use.required and form.unmarked
    return CallRules(
        form=form,
        names=frozenset(tool.name for tool in use.tools),
        single=use.single,
        unmarked=frozenset(tool.name for tool in use.tools if free and not tool.strict),
        enforced=_enforced(form, use, formatted),
        required=use.required,
    )


def _enforced(form: CallForm, use: ToolUse, formatted: bool) -> frozenset[str]:
    if formatted:
        return frozenset({form.begin})
    if any(tool.strict for tool in use.tools):
        return frozenset({form.begin, ""} if form.bare else {form.begin})
    return frozenset()


def _text_then_calls(form: CallForm, begin: str) -> list[str]:
    """Any text, until the mark of a call is written: what follows must be one."""
    if form.bare:
        return [f"start: calls | TEXT? ({begin} inside)?", r"TEXT: /[^ \t\r\n{\[](.|\n)*/"]
    if not begin.startswith('"'):  # a control token, which no text matches
        return [f"start: TEXT? ({begin} inside)?", r"TEXT: /(.|\n)+/"]
    marked = rf"/(.|\n)*{re.escape(form.begin)}"
    return ["start: TEXT? | marked inside", f"marked[lazy]: {marked}/", rf"TEXT: /(.|\n)+/ & ~{marked}(.|\n)*/"]


def _inside(form: CallForm, use: ToolUse, tokenizer: Tokenizer) -> list[str]:
    """``inside``: what stands behind the mark of a call."""
    several = "" if use.single or form.between is None else f"({_written(form.between, tokenizer)} call)*"
    opening = _written(form.opening.removeprefix(form.begin), tokenizer)
    names = [f"call{i}" for i, _ in enumerate(use.tools)]
    return [
        f"inside: {opening} call {several} {_written(form.closing, tokenizer)}",
        f"call: {' | '.join(names)}",
        *(f"{name}: {_call(tool, form)}" for name, tool in zip(names, use.tools, strict=True)),
    ]


def _call(tool: Tool, form: CallForm) -> str:
    before = f'"name": "{tool.name}", "{form.arguments}": '
    schema = json_rule({"type": "object", **tool.parameters}, lenient=not tool.strict)
    return f'"{{" {json.dumps(before)} {schema} "}}"'  # the brace by itself, as JSON that is none has it


def _written(text: str, tokenizer: Tokenizer) -> str:
    """Text in which control tokens may stand, as grammars have it."""
    pieces = tokenizer.control.split(text, guard_for(text))
    return " ".join(f"<[{each.id}]>" if isinstance(each, ControlToken) else json.dumps(each) for each in pieces if each)


def _schema_of(answer: Grammar) -> str:
    return json.dumps(json.loads(answer.source)["grammars"][0]["json_schema"])
