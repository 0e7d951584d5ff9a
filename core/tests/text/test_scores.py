"""Which text the scores of tokens come with, where a token is not a piece of text."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from truecluster._engine.requests import Event, FinishedEvent, Request, Sampling, TokenEvent
from truecluster._pipeline.logprobs import Logprobs
from truecluster._text import TextDelta, TextRequest
from truecluster._text.assembler import Assembler
from truecluster._text.tokenizer import Tokenizer
from truecluster.api import TokenizerData


def scored(id: int) -> TokenEvent:
    return TokenEvent(id, Logprobs(-float(id), ((0, -math.inf),)))


def told(tokenizer: Tokenizer, events: list[Event], *stop: str, prefix: str = "") -> list[tuple[str, list[Any]]]:
    tokens = Request(prompt=(1,), max_tokens=9, eos=frozenset(), sampling=Sampling(logprobs=1))
    assembler = Assembler(TextRequest(tokens=tokens, stop=stop, tokenizer=tokenizer, prefix=prefix))
    found = [text for event in events for text in assembler.feed([event])]
    deltas = [event for event in found if isinstance(event, TextDelta)]
    return [(delta.text, [(one.token.data, one.offset) for one in delta.scores]) for delta in deltas]


@pytest.fixture
def tokenizer(byte_data: TokenizerData) -> Tokenizer:
    return Tokenizer(byte_data)


def test_parts_of_a_character_come_with_it(tokenizer: Tokenizer) -> None:
    """OpenAI's ``bytes`` are there for this: their halves joined are the character."""
    events = [*map(scored, "aé".encode()), FinishedEvent(reason="length", generated=3)]
    assert told(tokenizer, events) == [("a", [(b"a", 0)]), ("é", [(b"\xc3", 1), (b"\xa9", 1)])]


def test_what_is_held_back_comes_with_its_tokens(tokenizer: Tokenizer) -> None:
    events = [*map(scored, b"abx"), FinishedEvent(reason="stop", generated=4)]
    expected = [("p", []), ("abx", [(b"a", 1), (b"b", 2), (b"x", 3)])]
    assert told(tokenizer, events, "abc", prefix="p") == expected


def test_a_stop_string_takes_its_tokens_along(tokenizer: Tokenizer) -> None:
    assert told(tokenizer, [*map(scored, b"xab")], "ab") == [("x", [(b"x", 0)])]


def test_tokens_without_text_are_told_at_the_end(tokenizer: Tokenizer) -> None:
    """A special token, which is no text, and half a character that nothing follows."""
    events = [scored(0x61), scored(256), FinishedEvent(reason="length", generated=2)]
    literal = tokenizer.bytes_of(256)
    assert literal.startswith(b"<")
    assert told(tokenizer, events) == [("a", [(b"a", 0)]), ("", [(literal, 1)])]
    events = [scored(0x61), scored(0xC3), FinishedEvent(reason="length", generated=2)]
    assert told(tokenizer, events) == [("a", [(b"a", 0)]), ("\ufffd", [(b"\xc3", 1)])]


def test_a_token_beyond_the_tokenizer_is_no_text(tokenizer: Tokenizer) -> None:
    """Models have more logits than tokens; the rest may still be among the likeliest."""
    assert tokenizer.bytes_of(tokenizer.size + 5) == b""


def test_words_of_sentencepiece_keep_their_space_and_bytes_are_bytes() -> None:
    """Llama's scheme: a space is ``▁``, and what has no word is spelled in bytes."""
    words = {"▁the": 0, "▁": 1, "<0xE2>": 2, "<0x82>": 3, "<0xAC>": 4, "x": 5, "<unk>": 6}
    library = Library(models.BPE(vocab=words, merges=[], unk_token="<unk>", byte_fallback=True))
    library.normalizer = normalizers.Replace(" ", "▁")
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    spaces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    library.decoder = decoders.Sequence(spaces)
    tokenizer = Tokenizer(TokenizerData(json=library.to_str()))
    assert [tokenizer.bytes_of(id) for id in range(6)] == [b" the", b" ", b"\xe2", b"\x82", b"\xac", b"x"]
    assert b"".join(map(tokenizer.bytes_of, [0, 2, 3, 4])).decode() == " the€"
