"""Grammars at work: which tokens of one tokenizer may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from truecluster._engine.requests import Constraint

from .grammar import Grammar
from .tokenizer import Tokenizer
from .turns import Turns

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

KEPT = 16
"""Compiled grammars that are kept."""
LEXER_STATES = 20_000
"""States that a grammar's lexer may have, of up to 2 kB each."""
_BEFORE = "\x02"


class Grammars:
    """Compiles grammars for one tokenizer, and keeps those that were used last. From any thread."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._turns = Turns()
        self._compiled = lru_cache(KEPT)(self._compile)
        self._words = lru_cache(1)(self._read)

    def start(self, grammar: Grammar, eos: frozenset[int]) -> Callable[[], Constraint]:
        """What makes a constraint for each answer that ends with one of ``eos``.

        Blocking: a second where it is the tokenizer's first. Raises `RequestError` for a grammar that is too large,
        and `Busy` where many are being compiled.
        """
        with self._turns.turn():
            compiled = self._compiled(grammar)
        size = self._tokenizer.size
        ends = tuple(id for id in eos if id < size)
        return lambda: TokenConstraint(grammar, compiled.deep_copy(), size, ends)

    def _compile(self, grammar: Grammar) -> LLMatcher:
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(max_lexer_states=LEXER_STATES, verbose_errors=False)
        compiled = LLMatcher(self._words(), grammar.source, log_level=0, limits=limits)
        trial = compiled.deep_copy()
        trial.compute_bitmask()
        if trial.is_error():
            raise grammar.refusal(trial.get_error())
        return compiled

    def _read(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        words = _Words(self._tokenizer)
        words.made = LLTokenizer(TokenizerWrapper(words), eos_token=words.eos_token_id)
        return words.made


class _Words:
    """A tokenizer as llguidance asks for it: what each token adds to a text, so that text and grammar agree.

    The library's own end is a token beyond all others; which ids end an answer is its request's to say.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = range(tokenizer.size)
        self.eos_token_id = tokenizer.size
        self.tokens = [*map(tokenizer.bytes_of, ids), b"end"]
        self.special_token_ids = [*filter(tokenizer.is_control, ids), tokenizer.size]
        self.made: LLTokenizer | None = None
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        """The ids that a model is used to for ``text``, which can only come next as a whole."""
        for ids in self._guesses(text):
            if b"".join(self.tokens[id] for id in ids) == text.encode():
                return ids
        return [] if self.made is None else self.made.greedy_tokenize(text)

    def _guesses(self, text: str) -> Iterator[list[int]]:
        """Tokenizers that put a space before every text put it before the letter here."""
        yield self._tokenizer.encode_inside(text)
        yield self._tokenizer.encode_inside(_BEFORE + text)[len(self._tokenizer.encode_inside(_BEFORE)) :]


class TokenConstraint:
    """See `Constraint`. ``matcher`` is at the answer's beginning; ``ends`` are ids below ``size``."""

    def __init__(self, grammar: Grammar, matcher: LLMatcher, size: int, ends: tuple[int, ...]) -> None:
        self._grammar = grammar
        self._matcher = matcher
        self._size = size
        self._ends = ends

    def mask(self) -> bytes:
        mask = bytearray(self._matcher.compute_bitmask())
        if self._matcher.is_error():
            raise self._grammar.refusal(self._matcher.get_error())
        _set(mask, self._size, False)
        for id in self._ends:
            _set(mask, id, self._matcher.is_accepting())
        return bytes(mask)

    def accept(self, token: int) -> bool:
        return self._matcher.consume_token(token) and self._matcher.is_stopped()


def _set(mask: bytearray, id: int, value: bool) -> None:
    if value:
        mask[id >> 3] |= 1 << (id & 7)
    else:
        mask[id >> 3] &= ~(1 << (id & 7))
