"""What an answer may look like: grammars as values, which nothing is compiled of before a request needs it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from truecluster.api import RequestError

from .trials import TRIALS

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

MAX_SOURCE = 256 * 1024
"""Characters of a grammar's source."""
_SHOWN = 200
_OTHER_DOCUMENT = re.compile(r"Resource '(?:json-schema:///)?(.*?)' is not present in a registry")
_PICTURES = re.compile(r"\n(?:<|\s*\d+ \|)")
_JSON: JsonCompileOptions = {
    "whitespace_flexible": False,  # small models love white space, and never end it
    "item_separator": ", ?",
    "key_separator": ": ?",
    "coerce_one_of": False,
    "lenient": False,
}
"""How JSON is written, and that no keyword of a schema is passed over."""


@attrs.frozen
class Grammar:
    """``source`` is llguidance's own form, which holds JSON schemas and Lark grammars; ``param`` is the field it is of.

    In a Lark grammar a string matches what tokens add to the text, added tokens that aren't special among them; a
    special token is named without quotes, as ``<|python_tag|>``.
    """

    source: str
    param: str | None = attrs.field(default=None, eq=False)

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls.json_schema({"type": "object"})

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any], param: str | None = None) -> Grammar:
        """JSON that the schema holds for. Raises `RequestError` with what can't be enforced."""
        from llguidance import LLMatcher

        try:
            source = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_JSON)
        except (ValueError, RecursionError) as error:
            raise cls("", param).refusal(str(error)) from None
        return cls(source, param)._checked()

    @classmethod
    def lark(cls, source: str, param: str | None = None) -> Grammar:
        """A grammar as llguidance's dialect of Lark has it. Raises `RequestError` with what is wrong with it."""
        from llguidance import LLMatcher

        return cls(LLMatcher.grammar_from_lark(source), param)._checked()

    def refusal(self, reason: str) -> RequestError:
        """The error for what the library says of it, without its pictures of the place and its states."""
        elsewhere = _OTHER_DOCUMENT.search(reason)
        if elsewhere is not None:
            reason = f"'$ref' to {elsewhere[1]} refers to another document, which isn't fetched; put it into '$defs'"
        line = " ".join(_PICTURES.split(reason)[0].split())
        shown = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
        return RequestError(f"{self._name} can't be enforced: {shown}; change or leave out that part", self.param)

    @property
    def _name(self) -> str:
        return "this grammar" if self.param is None else f"'{self.param}'"

    def _checked(self) -> Grammar:
        if len(self.source) > MAX_SOURCE:
            raise self.refusal(f"it has {len(self.source)} characters, at most {MAX_SOURCE} are taken")
        wrong = TRIALS.wrong(self.source)
        if wrong is not None:
            raise self.refusal(wrong)
        return self


def json_rule(schema: Mapping[str, Any], lenient: bool = False) -> str:
    """What stands in a Lark grammar for JSON that the schema holds for, written as `Grammar.json_schema` has it.

    ``lenient``: what can't be enforced is left out.
    """
    return f"%json {json.dumps({**schema, 'x-guidance': {**_JSON, 'lenient': lenient}})}"
