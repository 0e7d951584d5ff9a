"""The beginning of an answer that may be a call whose mark the model forgot, as small models do."""

from __future__ import annotations

from .call_texts import calls_in
from .json_texts import Extent, decode
from .tools import CallRules

_FENCE, _FENCE_END = "```json", "```"
_ENOUGH = 64


class Beginning:
    """Holds text back while the answer may be one call without its mark, or in a fence, and nothing else.

    A call comes out as the form has it, all other text exactly as it was written.
    """

    def __init__(self, rules: CallRules) -> None:
        self._rules = rules
        self._before = ""  # white space and a fence
        self._value = ""
        self._fenced = False
        self._extent: Extent | None = None
        self._decided = not rules.unmarked
        self._keys = tuple(f'{{"{key}":' for key in ("name", rules.form.arguments))

    def push(self, text: str) -> str:
        """What is certain now."""
        if self._decided:
            return text
        self._value += text
        return self._certain(last=False)

    def finish(self) -> str:
        """What was held back, when nothing follows."""
        return "" if self._decided else self._certain(last=True)

    def _certain(self, last: bool) -> str:
        call = self._call(last)
        if call is None and not last:
            return ""
        self._decided = True
        return call or self._before + self._value

    def _call(self, last: bool) -> str | None:
        """The call as the form has it; empty where there is none, ``None`` while there may be one."""
        if self._extent is None and not self._opens():
            return None
        assert self._extent is not None
        if not self._extent.grow(self._value) or not self._may_begin():
            return ""
        return self._closed(self._extent.length, last) if self._extent.complete else None

    def _opens(self) -> bool:
        """Whether it is known where JSON would begin."""
        text = self._value.lstrip()
        if _FENCE.startswith(text):
            return len(text) == len(_FENCE) and self._begin(_FENCE)
        return self._begin(_FENCE if text.startswith(_FENCE) else "")

    def _begin(self, fence: str) -> bool:
        at = len(self._value) - len(self._value.lstrip()) + len(fence)
        self._before, self._value = self._value[:at], self._value[at:]
        self._fenced, self._extent = bool(fence), Extent()
        return True

    def _may_begin(self) -> bool:
        letters = "".join(self._value[:_ENOUGH].split())
        return any(letters.startswith(key) or key.startswith(letters) for key in self._keys)

    def _closed(self, length: int, last: bool) -> str | None:
        """As `_call`, for a whole JSON value of so many characters, by what stands behind it."""
        value, rest, end = self._value[:length], self._value[length:].strip(), self._rules.form.end
        if not self._is_call(value.strip()):
            return ""
        if self._fenced:
            may_go_on, whole, behind = _FENCE_END.startswith(rest), last and rest == _FENCE_END, end
        else:
            may_go_on, behind = end.startswith(rest), self._value[length:]
            whole = rest.startswith(end) or (last and may_go_on)
        if whole:
            return f"{self._rules.form.begin}{value}{behind}"
        return None if may_go_on else ""

    def _is_call(self, text: str) -> bool:
        try:
            [call] = calls_in(text, self._rules)
        except (ValueError, RecursionError):
            return False
        return call.name in self._rules.unmarked and self._rules.form.arguments in decode(text)
