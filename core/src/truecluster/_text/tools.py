"""Tools that a model may call, and the forms in which models write their calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Tool:
    """A function that the client has. ``parameters`` is the JSON schema of its arguments, ``strict``: to the letter."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False

    def shown(self) -> dict[str, Any]:
        """As a template shows it to the model, its keys in the order that transformers gives them."""
        described = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": dict(self.parameters)}}


@attrs.frozen(kw_only=True)
class ToolUse:
    """The tools that may be called, at least one. ``required``: the answer is nothing but calls; ``single``: of one."""

    tools: tuple[Tool, ...]
    required: bool = False
    single: bool = False


@attrs.frozen(kw_only=True)
class ToolCall:
    """What a model calls. ``arguments`` is a JSON object, in the text that the model wrote."""

    name: str
    arguments: str


@attrs.frozen(kw_only=True)
class CallForm:
    """How a family of models writes calls: ``begin``, an object with a name and arguments or a list of them, ``end``.

    Where ``end`` is empty the answer ends there. ``bare``: ``begin`` may be left out where the answer begins so.
    ``unmarked``: a call that is the whole answer counts without it, though models should write it.
    ``opening``, ``between`` and ``closing`` are what the models themselves write around objects; ``between`` is
    ``None`` where an answer has one call. ``sign`` is found in the source of templates that use the form.
    """

    sign: re.Pattern[str]
    begin: str
    end: str
    arguments: str
    opening: str
    between: str | None
    closing: str
    bare: bool = False
    unmarked: bool = False


FORMS = (
    CallForm(  # Hermes, Qwen 2.5 and 3, SmolLM3
        sign=re.compile(r"<tool_call>(\\n|\s)*\{\\?[\"']"),
        begin="<tool_call>",
        end="</tool_call>",
        arguments="arguments",
        opening="<tool_call>\n",
        between="\n</tool_call>\n<tool_call>\n",
        closing="\n</tool_call>",
        unmarked=True,
    ),
    CallForm(  # Mistral up to its tokenizer's version 7
        sign=re.compile(r"\[TOOL_CALLS\] ?\["),
        begin="[TOOL_CALLS]",
        end="",
        arguments="arguments",
        opening="[TOOL_CALLS][",
        between=", ",
        closing="]",
    ),
    CallForm(  # Llama 3.1 to 3.3
        sign=re.compile(r"\{\\?\"name\\?\": [^}]*\\?\"parameters\\?\": "),
        begin="<|python_tag|>",
        end="",
        arguments="parameters",
        opening="",
        between=None,
        closing="",
        bare=True,
    ),
)
"""A table, not an offer of plugins: what differs between the forms is data, and a new one is an entry here."""


def form_of(template: str) -> CallForm | None:
    """The form that a template's source shows, if it is a known one."""
    return next((form for form in FORMS if form.sign.search(template)), None)


@attrs.frozen(kw_only=True)
class CallRules:
    """What counts as a call in an answer: one in this form, of a function with one of these names.

    ``single``: the answer ends with the first. ``unmarked``: those that one may be of without its mark. A grammar
    allows nothing but calls behind the marks in ``enforced``, empty for an answer's beginning, and nothing but calls at
    all where they are ``required``.
    """

    form: CallForm
    names: frozenset[str]
    single: bool = False
    unmarked: frozenset[str] = frozenset()
    enforced: frozenset[str] = frozenset()
    required: bool = False
