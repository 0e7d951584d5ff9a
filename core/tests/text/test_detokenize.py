from __future__ import annotations

import random

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models

from truecluster._text.detokenize import Detokenizer, WindowDetokenizer
from truecluster._text.tokenizer import Tokenizer
from truecluster.api import TokenizerData

EMOJI = "👩‍💻你好 naïve ½"


def pieces(detokenizer: Detokenizer, ids: list[int]) -> list[str]:
    return [*map(detokenizer.push, ids), detokenizer.finish()]


def fallback_tokenizer() -> Library:
    """As Llama-2 and Gemma have it: words with a leading ▁, and single bytes for what has no word."""
    words = ["<unk>", "▁", "▁a", "▁the", "cat", "s", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Library(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def test_an_emoji_over_many_tokens_is_never_cut(byte_data: TokenizerData) -> None:
    """TOK-01: no half of it is told."""
    got = pieces(Tokenizer(byte_data).detokenizer(), list(EMOJI.encode()))
    assert "".join(got) == EMOJI
    assert "\ufffd" not in "".join(got)
    assert [piece for piece in got if piece] == list(EMOJI)


def test_a_character_that_the_model_left_unfinished_ends_in_one_replacement(byte_data: TokenizerData) -> None:
    """TOK-01: one for all its bytes."""
    cut = list("a👩".encode())[:-1]
    assert pieces(Tokenizer(byte_data).detokenizer(), cut) == ["a", "", "", "", "\ufffd"]


def test_any_bytes_give_what_decoding_them_at_once_gives(byte_data: TokenizerData) -> None:
    library, tokenizer, draw = Library.from_str(byte_data.json or ""), Tokenizer(byte_data), random.Random(1)
    for _ in range(300):
        ids = draw.choices([0x41, 0x80, 0xBF, 0xC3, 0xE4, 0xBD, 0xA0, 0xED, 0xF0, 0x9F, 0xFF, 259, 300], k=12)
        assert "".join(pieces(tokenizer.detokenizer(), ids)) == library.decode(ids)


def test_added_tokens_that_are_not_special_are_text(byte_data: TokenizerData) -> None:
    """TOK-09: only special ones have none."""
    tokenizer = Tokenizer(byte_data)
    assert pieces(tokenizer.detokenizer(), [259, 0x7B]) == ["<tool_call>", "{", ""]
    assert [tokenizer.is_control(id) for id in (257, 259)] == [True, False]


def test_words_with_a_leading_space_and_bytes_join_to_the_whole() -> None:
    library = fallback_tokenizer()
    emoji = [6 + byte for byte in "é👩".encode()]
    ids = [2, 4, 5, 1, 1, 2, *emoji, 3, 4, *emoji, 2]
    got = pieces(WindowDetokenizer(library.decode), ids)
    assert "".join(got) == library.decode(ids) == "acats   aé👩 thecaté👩 a"
    assert all("\ufffd" not in piece for piece in got)


def test_the_cost_of_a_token_does_not_grow() -> None:
    library, longest = fallback_tokenizer(), 0

    def decode(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return library.decode(ids)

    detokenizer = WindowDetokenizer(decode)
    for id in [2, 4, *[6 + 0x80] * 200, 3, *[999] * 200, 4]:
        detokenizer.push(id)
    assert longest <= 2 * WindowDetokenizer.LIMIT


@pytest.mark.parametrize("text", ["", "x", "日本の首都は東京です。"])
def test_finishing_gives_nothing_twice(byte_data: TokenizerData, text: str) -> None:
    detokenizer = Tokenizer(byte_data).detokenizer()
    assert "".join(pieces(detokenizer, list(text.encode()))) == text
    assert detokenizer.finish() == ""
