"""SentencePiece vocabularies give SentencePiece's own ids: tiny ones, trained here."""

from __future__ import annotations

import io
import random
from functools import cache
from pathlib import Path

import pytest
import sentencepiece
from tcplug_gguf.checkpoint import GgufSource
from tokenizers import Tokenizer

from truecluster.api import CheckpointError, OpenOptions
from truecluster.api import TokenizerData as Data

TEXT = """
The quick brown fox jumps over the lazy dog, and then the dog sleeps. Models learn pieces of words from text.
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
Straße, naïve café, déjà vu; Größe und Gewicht. 日本語のテキスト。 Цена 1,234.56 € — «да».
the the the of of and and in in to to he her here there where then than that this these those
"""
SENTENCES = [
    "The dog learns Python, then sleeps.",
    "  two spaces in front,  and in between   and behind  ",
    " one",
    "▁ is the space's own sign",
    "déjà vu — «да» 日本語 한국어 👩‍💻 \u00a0\u200b\ufeff",
    "tabs\tand\nlines\n\n\nand\r\n",
    "def f(x):\n    return x\n",
    "\x00\x01\x7f\u0301e\u0301",
    "aaaaaaaa ththththe thethethe",
    " ",
    "",
]
TYPES = {"is_unknown": 2, "is_control": 3, "is_unused": 5, "is_byte": 6}


@cache
def trained(**options: object) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3),
        model_writer=model,
        model_type="bpe",
        vocab_size=400,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
        num_threads=1,
        **{"byte_fallback": True, **options},
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def keys_of(model: sentencepiece.SentencePieceProcessor, prefix: bool = True) -> dict[str, object]:
    """As llama.cpp's converter writes them."""
    ids = range(model.get_piece_size())
    kinds = [next((kind for name, kind in TYPES.items() if getattr(model, name)(id)), 1) for id in ids]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [model.id_to_piece(id) for id in ids],
        "tokenizer.ggml.scores": [model.get_score(id) for id in ids],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.bos_token_id": model.bos_id(),
        "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.unknown_token_id": model.unk_id(),
        "tokenizer.ggml.add_bos_token": None,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def data_of(path: Path) -> Data:
    with GgufSource().open(str(path), OpenOptions()) as checkpoint:
        return checkpoint.tokenizer()


def built(data: Data) -> Tokenizer:
    made = Tokenizer.from_str(data.json)
    made.encode_special_tokens = True
    return made


def random_texts(count: int) -> list[str]:
    draw = random.Random(5)
    letters = "the andofr\u00e9ß日ц  \n,."
    return ["".join(draw.choices(letters, k=draw.randrange(1, 60))) for _ in range(count)]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("bytes_too", [True, False])
def test_ids_are_sentencepieces(tiny, prefix: bool, bytes_too: bool) -> None:
    model = trained(add_dummy_prefix=prefix, byte_fallback=bytes_too)
    ours = built(data_of(tiny.write(keys=keys_of(model, prefix))))
    for text in [*SENTENCES, *TEXT.splitlines(), "<s>hi</s> <unk> <0x0A>", *random_texts(300)]:
        assert ours.encode(text, add_special_tokens=False).ids == model.encode(text), text


@pytest.mark.parametrize("prefix", [True, False])
def test_text_comes_back(tiny, prefix: bool) -> None:
    model = trained(add_dummy_prefix=prefix)
    ours = built(data_of(tiny.write(keys=keys_of(model, prefix))))
    for text in [text for text in SENTENCES if "▁" not in text]:
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == model.decode(ids) == text


def test_facts(tiny) -> None:
    """llama.cpp begins a SentencePiece vocabulary with bos where the file doesn't say."""
    keys = keys_of(trained())
    data = data_of(tiny.write("a.gguf", keys=keys))
    assert (data.bos, data.eos, data.add_bos) == ("<s>", "</s>", True)
    assert not data_of(tiny.write("b.gguf", keys={**keys, "tokenizer.ggml.add_bos_token": False})).add_bos
    assert data_of(tiny.write("c.gguf", keys={**keys, "tokenizer.ggml.pre": None})).add_bos


def test_a_text_behind_a_token_of_its_own_begins_with_a_space(tiny) -> None:
    """As llama.cpp has it, also behind control tokens."""
    model = trained(user_defined_symbols="<tool>")
    keys = keys_of(model)
    kinds = keys["tokenizer.ggml.token_type"]
    kinds[model.piece_to_id("<tool>")] = 4
    made = Tokenizer.from_str(data_of(tiny.write(keys=keys)).json)
    text = made.encode("the<tool>the</s>the", add_special_tokens=False)
    assert text.tokens == ["▁the", "<tool>", "▁the", "</s>", "▁the"]
    assert not made.get_added_tokens_decoder()[model.piece_to_id("<tool>")].special


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("scores", None, "is missing"),
        ("scores", [1.0, 2.0], "2 items for 400 tokens"),
        ("scores", [1, 2], "finite floats"),
        ("scores", [float("nan")] * 400, "finite floats"),
        ("unknown_token_id", 400, "there are 400 tokens"),
        ("add_space_prefix", "yes", "must be of type bool"),
        ("remove_extra_whitespaces", True, "True is not supported"),
    ],
)
def test_a_wrong_value_is_named(tiny, key: str, value: object, words: str) -> None:
    path = tiny.write(keys={**keys_of(trained()), f"tokenizer.ggml.{key}": value})
    with pytest.raises(CheckpointError, match=rf"tokenizer\.ggml\.{key}") as caught:
        data_of(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("piece", "kind", "words"),
    [("x" * 257, 1, "a piece of 257 characters"), ("▁▁", 4, "user-defined token '▁▁' holds a space")],
)
def test_a_piece_that_can_not_be_honoured_is_refused(tiny, piece: str, kind: int, words: str) -> None:
    keys = keys_of(trained())
    keys["tokenizer.ggml.tokens"][-1], keys["tokenizer.ggml.token_type"][-1] = piece, kind
    with pytest.raises(CheckpointError, match=words):
        data_of(tiny.write(keys=keys))
