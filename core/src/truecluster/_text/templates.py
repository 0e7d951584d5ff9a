"""Chat templates: messages to the ids of a prompt."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import jinja2
from jinja2 import meta
from jinja2.sandbox import safe_range

from truecluster.api import CheckpointError, RequestError

from .control import guard_for
from .environment import sandbox
from .messages import Habits, normalise
from .tokenizer import Tokenizer
from .tools import CallForm, form_of
from .unicode import require_plain

RENDER_SECONDS = 10.0
"""That a template may take; it is a program of the model's."""


@attrs.frozen
class _Compiled:
    template: jinja2.Template
    habits: Habits
    calls: CallForm | None
    knows_tools: bool


def _compiled(environment: jinja2.Environment, name: str, source: str) -> _Compiled:
    try:
        knows_tools = "tools" in meta.find_undeclared_variables(environment.parse(source))
        return _Compiled(environment.from_string(source), Habits.of(source), form_of(source), knows_tools)
    except (jinja2.TemplateError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise CheckpointError(f"the model's chat template {name!r} is damaged{line}: {error}") from error


class ChatTemplates:
    """A model's templates by name; none for a base model.

    Raises `CheckpointError` where a template isn't valid, so that it is found when the model is loaded.
    """

    def __init__(self, sources: Mapping[str, str], tokenizer: Tokenizer) -> None:
        environment = sandbox()
        self._templates = {name: _compiled(environment, name, source) for name, source in sources.items()}
        self._tokenizer = tokenizer
        special = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos}
        self._variables = {name: token for name, token in special.items() if token is not None}

    def _choose(self, tools: bool) -> _Compiled:
        names = ("tool_use", "default") if tools else ("default",)
        chosen = next((self._templates[name] for name in names if name in self._templates), None)
        if chosen is None and len(self._templates) == 1:
            chosen = next(iter(self._templates.values()))
        if chosen is None:
            raise RequestError("the model has no chat template; use /v1/completions, or --raw on the command line")
        return chosen

    def call_form(self) -> CallForm:
        """How the model writes the calls of tools that it is shown. Raises `RequestError` where that isn't known."""
        chosen = self._choose(True)
        if not chosen.knows_tools:
            raise RequestError("this model's chat template knows no tools; leave out 'tools'", "tools")
        if chosen.calls is None:
            raise RequestError("this model writes tool calls in no form that is known here; leave out 'tools'", "tools")
        return chosen.calls

    def encode(self, messages: Any, *, tools: Any = None, answer: bool = True) -> list[int]:
        """The ids of a chat; with ``answer`` up to where the assistant's next words begin.

        Literals of control tokens inside the messages stay text. Raises `RequestError` where the messages are
        malformed, or where the template refuses them.
        """
        text, guard = self.render(messages, tools=tools, answer=answer)
        return self._tokenizer.encode_guarded(text, guard)

    def render(self, messages: Any, *, tools: Any = None, answer: bool = True) -> tuple[str, str]:
        """The text of a chat, and the guard that marks the literals in it that aren't control tokens."""
        chosen = self._choose(bool(tools))
        require_plain(messages, "messages")
        given = {"messages": normalise(messages, chosen.habits), "tools": tools}
        guard = guard_for(given)
        safe = self._tokenizer.control.break_literals(given, guard)
        variables = {**self._variables, **safe, "documents": None, "add_generation_prompt": answer}
        return _rendered(chosen.template, variables, guard), guard

    def turn_end(self) -> int | None:
        """The control token that the default template puts behind an assistant's words."""
        words = "0f1e2d"
        try:
            turns = [{"role": "user", "content": "0"}, {"role": "assistant", "content": words}]
            text, _ = self.render(turns, answer=False)
        except RequestError:
            return None
        token = self._tokenizer.control.first(text.rpartition(words)[2])
        return token.id if token else None


def _watched(template: jinja2.Template, variables: Mapping[str, Any]) -> Iterator[str]:
    """The pieces of a text; raises `RequestError` when it takes too long, seen at each piece and each ``range``."""
    until = time.monotonic() + RENDER_SECONDS

    def check() -> None:
        if time.monotonic() > until:
            raise RequestError(f"the model's chat template didn't end within {RENDER_SECONDS:g} seconds", "messages")

    def watched_range(*bounds: int) -> range:
        check()
        return safe_range(*bounds)

    for piece in template.generate({**variables, "range": watched_range}):
        check()
        yield piece


def _rendered(template: jinja2.Template, variables: Mapping[str, Any], guard: str) -> str:
    try:
        return "".join(_watched(template, variables))
    except RequestError:
        raise
    except jinja2.TemplateError as error:
        reason = str(error).replace(guard, "")
        raise RequestError(f"the model's chat template refuses these messages: {reason}", "messages") from error
    except Exception as error:  # a template is a program: whatever it does wrong with these messages ends here
        raise RequestError(
            f"the model's chat template can't render these messages ({type(error).__name__}); change them", "messages"
        ) from error
