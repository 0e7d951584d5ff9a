"""Tool calls in a growing text.

A call is held back until it is complete, for only then it is known to be one: what turns out to be none is text,
exactly as it was written, unless a grammar made it the beginning of a call. White space around calls is dropped. What
comes doesn't depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from .call_texts import calls_in
from .json_texts import Extent
from .stops import held
from .tools import CallRules, ToolCall
from .unmarked import Beginning


class NoCalls:
    """For answers in which no calls are looked for: as `CallParser`, with nothing but text."""

    marks: tuple[str, ...] = ()
    called = enough = False

    def push(self, text: str) -> list[str | ToolCall]:
        return [text] if text else []

    def finish(self) -> list[str | ToolCall]:
        return []


class CallParser:
    """Text and calls, in the order in which they stand in an answer. ``marks`` must be in its text."""

    def __init__(self, rules: CallRules) -> None:
        self._rules = rules
        self._form = rules.form
        self.marks = (rules.form.begin, rules.form.end)
        self._beginning = Beginning(rules)
        self._pending = ""
        self._gap = ""  # white space that may stand before a call
        self._behind_call = False
        self._mark = ""  # what the call that may be under way began with, and how far it is looked at
        self._extent = Extent() if rules.form.bare else None
        self.called = False

    @property
    def enough(self) -> bool:
        """Whether nothing more is taken."""
        return self._rules.single and self.called

    def push(self, text: str) -> list[str | ToolCall]:
        """What is certain now."""
        self._pending += self._beginning.push(text)
        return list(self._certain(last=False))

    def finish(self) -> list[str | ToolCall]:
        """What was held back, when nothing follows; not what the grammar made the beginning of a call."""
        cut = self._cut
        self._pending += self._beginning.finish()
        found = list(self._certain(last=True))
        gap, self._gap = self._gap, ""
        if cut:
            return [part for part in found if isinstance(part, ToolCall)]
        return [*found, gap] if gap and not self.enough else found

    @property
    def _cut(self) -> bool:
        return self._rules.required or (self._extent is not None and self._mark in self._rules.enforced)

    def _certain(self, last: bool) -> Iterator[str | ToolCall]:
        while not self.enough:
            if self._extent is None:
                yield from self._plain(last)
            if self._extent is None or (found := self._decided(self._extent, last)) is None:
                return
            yield from found

    def _plain(self, last: bool) -> list[str]:
        """The text up to where a call may begin."""
        text, begin, rest = self._pending.partition(self._form.begin)
        if begin:
            self._mark, self._extent, self._pending = begin, Extent(), rest
            return self._said(text)
        sure = len(text) - (0 if last else held(text, self._form.begin))
        self._pending = text[sure:]
        return self._said(text[:sure])

    def _said(self, text: str) -> list[str]:
        text = self._gap + text
        text = text.lstrip() if self._behind_call else text
        said = text.rstrip()
        self._gap = text[len(said) :]
        self._behind_call = self._behind_call and not said
        return [said] if said else []

    def _decided(self, extent: Extent, last: bool) -> list[str] | list[ToolCall] | None:
        """What the text behind the mark turned out to be; ``None`` while it may still become a call."""
        if not extent.grow(self._pending):
            return self._no_call(extent.length)
        if not extent.complete:
            return self._no_call(extent.length) if last else None
        rest = self._pending[extent.length :].lstrip()
        if self._form.end and rest.startswith(self._form.end):
            return self._calls(extent.length, rest[len(self._form.end) :])
        if not self._form.end.startswith(rest):
            return self._no_call(extent.length)
        return self._calls(extent.length, "") if last else None

    def _no_call(self, length: int) -> list[str]:
        text, self._pending = self._mark + self._pending[:length], self._pending[length:]
        self._extent = None
        return self._said(text)

    def _calls(self, length: int, rest: str) -> list[str] | list[ToolCall]:
        try:
            calls = calls_in(self._pending[:length].strip(), self._rules)
        except (ValueError, RecursionError):
            return self._no_call(length)
        self._extent, self._pending, self._gap = None, rest, ""
        self._behind_call = self.called = True
        return calls[:1] if self._rules.single else calls
