"""The process that tries grammars: a line of JSON comes in, a line goes out, or the process ends because it took long.

What compiles grammars can't be interrupted, and some of a few hundred characters keep it busy for minutes and more.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator

_SPECIAL = re.compile(r'<[^<>\s"\\]{1,64}>')
_ID = re.compile(r"<\[\d+\]>")
_ANY_ID = "<[256]>"


class _Letters:
    """A tokenizer of bytes and special tokens, as llguidance asks for one: a lexer is the same for any tokenizer."""

    bos_token_id = None

    def __init__(self, special: list[bytes]) -> None:
        self.tokens = [*(bytes([value]) for value in range(256)), *special, b"<end of answer>"]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids = [*range(256, len(self.tokens))]

    def __call__(self, text: str) -> list[int]:
        return [*text.encode()]


def _wrong(source: str) -> str | None:
    """What is wrong with a grammar by itself. A first mask is computed, too: there a lexer begins its work."""
    from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

    wrong, messages = LLMatcher.validate_grammar_with_warnings(source)
    if wrong:
        return messages[0]
    source = _ID.sub(_ANY_ID, source)
    words = _Letters(sorted({name.encode() for name in (_ANY_ID, *_SPECIAL.findall(source))}))
    tokenizer = LLTokenizer(TokenizerWrapper(words), eos_token=words.eos_token_id)
    LLMatcher(tokenizer, source, log_level=0).compute_bitmask()
    return None


def answers(lines: Iterator[str], seconds: float) -> Iterator[str]:
    """For each source what is wrong with it, or null, as JSON; none may take more of a processor's time."""
    import llguidance  # noqa: F401 - what this takes is no grammar's

    for line in lines:
        _allow(seconds)
        yield json.dumps(_wrong(json.loads(line)))
        _allow(0)


def _allow(seconds: float) -> None:
    """End this process after so much of a processor's time, 0: never. On Windows only whoever waits for it ends it."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    for answer in answers(iter(sys.stdin.readline, ""), float(sys.argv[1])):
        print(answer, flush=True)
