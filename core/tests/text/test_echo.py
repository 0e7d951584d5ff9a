"""Where the tokens of an echoed prompt begin, by hand."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from truecluster._engine.requests import CachedEvent, FinishedEvent, PromptEvent, Request, Sampling, TokenEvent
from truecluster._pipeline.logprobs import Logprobs
from truecluster._text import TextDelta, TextFinished, TextRequest
from truecluster._text.assembler import Assembler
from truecluster._text.echo import offsets
from truecluster._text.tokenizer import Tokenizer
from truecluster.api import TokenizerData

START, EOT = 256, 258
"""Control tokens of the tokenizer that a byte is a token of."""


@pytest.fixture
def tokenizer(byte_data: TokenizerData) -> Tokenizer:
    return Tokenizer(byte_data)


@pytest.mark.parametrize(
    ("text", "ids", "expected"),
    [
        ("abc", [*b"abc"], (0, 1, 2)),
        ("aé€x", [*"aé€x".encode()], (0, 1, 1, 2, 2, 2, 3)),
        ("<|im_start|>a", [START, *b"a"], (0, 12)),
        ("ab", [EOT, *b"ab"], (0, 0, 1)),
        ("a<|im_start|>b", [EOT, *b"a", START, *b"b"], (0, 0, 1, 13)),
        ("a\ufffd<|im_start|>", [0x61, 0xC3, START], (0, 1, 2)),
    ],
    ids=["letters", "parts of characters", "control", "leading", "leading and control", "half a character"],
)
def test_tokens_begin_where_their_text_does(
    tokenizer: Tokenizer, text: str, ids: list[int], expected: tuple[int, ...]
) -> None:
    assert offsets(tokenizer, ids, text) == expected


def test_words_of_sentencepiece_begin_with_their_space() -> None:
    words = {"▁the": 0, "▁sea": 1, "s": 2, "<unk>": 3}
    library = Library(models.BPE(vocab=words, merges=[], unk_token="<unk>"))
    library.normalizer = normalizers.Replace(" ", "▁")
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = Tokenizer(TokenizerData(json=library.to_str()))
    assert offsets(tokenizer, [0, 1, 2], "the seas") == (0, 3, 7)


@pytest.fixture
def assembler(tokenizer: Tokenizer) -> Assembler:
    tokens = Request(prompt=(EOT, 0x61, 0x62), max_tokens=9, eos=frozenset(), sampling=Sampling(logprobs=0))
    request = TextRequest(tokens=tokens, stop=(), tokenizer=tokenizer, prefix="ab", offsets=(0, 0, 1))
    return Assembler(request)


def test_the_prompt_waits_for_all_of_its_scores_and_the_answer_goes_on_behind_it(assembler: Assembler) -> None:
    assert assembler.feed([CachedEvent(32), PromptEvent(Logprobs(-1.0))]) == []
    (prompt,) = assembler.feed([PromptEvent(Logprobs(-2.0))])
    assert isinstance(prompt, TextDelta)
    assert prompt.text == "ab"
    told = [(one.token.data, one.token.logprob, one.offset) for one in prompt.scores]
    assert told == [(b"<|endoftext|>", None, 0), (b"a", -1.0, 0), (b"b", -2.0, 1)]
    answer, end = assembler.feed([TokenEvent(0x63, Logprobs(-3.0)), FinishedEvent(reason="length", generated=1)])
    assert isinstance(answer, TextDelta)
    assert (answer.text, [one.offset for one in answer.scores]) == ("c", [2])
    assert end == TextFinished(reason="length", ids=(0x63,), generated=1, cached=32)


def test_a_failure_before_the_last_score_is_told(assembler: Assembler) -> None:
    found = assembler.feed([PromptEvent(Logprobs(-1.0)), FinishedEvent(reason="error", generated=0, message="lost")])
    assert isinstance(found[-1], TextFinished)
    assert (found[-1].reason, found[-1].message) == ("error", "lost")
    assert not any(event.text for event in found[:-1] if isinstance(event, TextDelta))
