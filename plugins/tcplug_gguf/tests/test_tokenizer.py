"""Vocabularies become tokenizers with the ids that the model was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tcplug_gguf.checkpoint import GgufSource
from tcplug_gguf.pretokenizers import PRE_TOKENIZERS
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from truecluster.api import CheckpointError, OpenOptions

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "golden.json"
NASTY = [
    "Hello, world!  Two  spaces,\ttabs\t\tand\n\n\nlines \n  indented\n",
    "I'll we've THEY'RE don't 'S 'tis",
    "👩‍💻👨‍👩‍👧‍👦 🇩🇪 naïve café résumé",
    "你好。世界。日本語のテキスト。한국어 텍스트 ไทย हिन्दी العربية עברית",
    "def f(x: int) -> str:\n    return f'{x!r:>10}'  # ünïcode\n\n\tif a<=b: pass;//*&^%$#@!",
    "\u00a0non\u2009breaking\u3000spaces\u200bzero\ufeffwidth",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><|not_special|>",
    "a" * 300 + " " * 40 + "\r\n\r\n" + "\x00\x01\x7f",
    "",
    " ",
    "\n",
]
NUMBERS = [
    "1234567 3.14159 1,000,000 x86_64 v2.0.1-rc3 0xDEADBEEF",
    "   12   345 \n 6",
    "\u00bd \u00b2 \u2460 \u0663 \U0001d7d8",
]
DECOMPOSED = ["cafe\u0301 A\u030a \u1100\u1161"]


def tokenizer(path):
    with GgufSource().open(str(path), OpenOptions()) as checkpoint:
        return checkpoint.tokenizer()


def encode(data, text):
    return Tokenizer.from_str(data.json).encode(text, add_special_tokens=False).ids


def test_ids_by_hand(tiny):
    """262 and 263 are the turns' tokens; 259 is "hello", 261 is " wo"; a byte's id is the byte."""
    data = tokenizer(tiny.write())
    assert encode(data, "hello world") == [259, 261, *b"rld"]
    assert encode(data, "<|im_start|>hello<|im_end|>") == [262, 259, 263]
    assert encode(data, "é1") == [*"é".encode(), ord("1")]
    assert (data.bos, data.eos, data.add_bos, data.folder) == ("<|im_start|>", "<|im_end|>", False, None)


def test_control_tokens_are_special_and_the_users_own_are_not(tiny):
    made = Tokenizer.from_str(tokenizer(tiny.write()).json)
    added = made.get_added_tokens_decoder()
    assert {token.content: token.special for token in added.values()} == {
        "<|im_start|>": True,
        "<|im_end|>": True,
        "<tool>": False,
    }
    assert made.decode([262, 259, 264, 263]) == "hello<tool>"
    assert made.decode([*"é日".encode()]) == "é日"


def test_unused_tokens_are_text(tiny):
    assert encode(tokenizer(tiny.write()), "[PAD]") == [*b"[PAD]"]


def test_qwen2_composes_and_cuts_digits(tiny):
    data = tokenizer(tiny.write())
    assert encode(data, "e\u0301") == [*"é".encode()]


def test_whole_pieces_skip_merging_where_llama_does(tiny):
    """ "hell" can't be merged when "he ll" is missing, but llama takes a piece that is a token as it is."""
    merges = ["h e", "l l"]
    llama = tiny.write("llama.gguf", keys={"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.merges": merges})
    qwen = tiny.write("qwen.gguf", keys={"tokenizer.ggml.merges": merges})
    assert encode(tokenizer(llama), "hell") == [258]
    assert encode(tokenizer(qwen), "hell") == [256, 257]


def test_llama_adds_bos_unless_the_file_says_otherwise(tiny):
    keys = {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": None}
    assert tokenizer(tiny.write("a.gguf", keys=keys)).add_bos
    assert not tokenizer(tiny.write("b.gguf", keys={"tokenizer.ggml.pre": "llama-bpe"})).add_bos
    assert not tokenizer(tiny.write("c.gguf", keys={"tokenizer.ggml.add_bos_token": None})).add_bos


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_pre_tokenizer_loads_and_loses_nothing(tiny, pre):
    made = Tokenizer.from_str(tokenizer(tiny.write(keys={"tokenizer.ggml.pre": pre})).json)
    for text in NASTY[:6] + NUMBERS:
        assert made.decode(made.encode(text, add_special_tokens=False).ids) == text


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["it", "'s", " 12345", "!?", "\n  ", " Ab"]),
        ("smollm", ["it", "'s", " ", "1", "2", "3", "4", "5", "!?", "\n  ", " Ab"]),
        ("qwen2", ["it", "'s", " ", "1", "2", "3", "4", "5", "!?\n", "  ", " Ab"]),
        ("llama-bpe", ["it", "'s", " ", "123", "45", "!?\n", "  ", " Ab"]),
        ("gpt-4o", ["it's", " ", "123", "45", "!?\n", "  ", " Ab"]),
        ("tekken", ["it", "'s", " ", "1", "2", "3", "4", "5", "!?\n", "  ", " Ab"]),
        ("deepseek-v3", ["it", "'s", " ", "123", "45", "!?\n", "  ", " Ab"]),
        ("deepseek-coder", ["it", "'", "s", " ", "1", "2", "3", "4", "5", "!?", "\n", "  ", " Ab"]),
    ],
)
def test_cuts_by_hand(tiny, pre, pieces):
    made = Tokenizer.from_str(tokenizer(tiny.write(keys={"tokenizer.ggml.pre": pre})).json)
    text = "it's 12345!?\n   Ab"
    assert [text[a:b] for _, (a, b) in made.pre_tokenizer.pre_tokenize_str(text)] == pieces


@pytest.mark.parametrize("pre", sorted(set(PRE_TOKENIZERS) & set(GGUF_PRE_TOKENIZER_SPLITS)))
def test_cuts_are_those_of_transformers(tiny, pre):
    made = Tokenizer.from_str(tokenizer(tiny.write(keys={"tokenizer.ggml.pre": pre})).json)
    made.normalizer = normalizers.Sequence([])
    theirs = pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[pre]), behavior="isolated")
    for text in NASTY + NUMBERS + DECOMPOSED:
        cuts = [place for _, place in made.pre_tokenizer.pre_tokenize_str(text)]
        assert cuts == [place for _, place in theirs.pre_tokenize_str(text)], text


@pytest.mark.parametrize("key", ["model", "pre", "tokens", "merges", "token_type"])
def test_a_missing_key_is_named(tiny, key):
    """GGUF-07: without ``pre`` a guess would give wrong ids."""
    path = tiny.write(keys={f"tokenizer.ggml.{key}": None})
    with pytest.raises(CheckpointError, match=rf"tokenizer\.ggml\.{key}"):
        tokenizer(path)


@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id", "add_bos_token"])
def test_ids_may_be_missing(tiny, key):
    """GGUF-07."""
    data = tokenizer(tiny.write(keys={f"tokenizer.ggml.{key}": None}))
    assert data.add_bos is False
    assert data.bos == (None if key == "bos_token_id" else "<|im_start|>")
    assert data.eos == (None if key == "eos_token_id" else "<|im_end|>")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("pre", "my-own", "'my-own'; supported: deepseek-coder"),
        ("model", "bert", "'bert'; supported: 'gpt2' (byte-level BPE), 'llama' (SentencePiece's BPE)"),
        ("add_eos_token", True, "True is not supported; only False is"),
        ("tokens", 5, "must be an array, not 5"),
        ("tokens", [1, 2], "array of strings"),
        ("token_type", [1, 2], "2 items for 266 tokens"),
        ("token_type", ["a"], "whole numbers"),
        ("merges", ["h e", "q q"], "item 1"),
        ("merges", ["he"], "item 0"),
        ("bos_token_id", 266, "266"),
        ("add_bos_token", "yes", "must be of type bool"),
    ],
)
def test_a_wrong_value_is_named(tiny, key, value, words):
    """GGUF-07."""
    path = tiny.write(keys={f"tokenizer.ggml.{key}": value})
    with pytest.raises(CheckpointError, match=rf"tokenizer\.ggml\.{key}") as caught:
        tokenizer(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_adding_a_bos_that_is_not_there_is_refused(tiny):
    keys = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": None}
    with pytest.raises(CheckpointError, match="bos_token_id is missing"):
        tokenizer(tiny.write(keys=keys))


def test_a_token_that_stands_there_twice_is_named(tiny):
    tokens = tiny.usual()["tokenizer.ggml.tokens"]
    with pytest.raises(CheckpointError, match="'A' twice"):
        tokenizer(tiny.write(keys={"tokenizer.ggml.tokens": [*tokens[:66], "A", *tokens[67:]]}))


def test_real_models_give_the_golden_ids(real):
    data = tokenizer(real.with_name(f"{real.name}.gguf"))
    raw = [case for case in json.loads(GOLDEN.read_text())[real.name] if case["kind"] == "raw"]
    assert raw
    for case in raw:
        assert encode(data, case["prompt"]) == case["ids"]


def test_real_models_agree_with_transformers(real):
    """SmolLM2's folder was made without the cut at digits that its model was trained with, so those are left out."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(real)
    ours = Tokenizer.from_str(tokenizer(real.with_name(f"{real.name}.gguf")).json)
    corpus = NASTY + (NUMBERS + DECOMPOSED if "qwen" in real.name else [])
    for text in corpus:
        assert ours.encode(text, add_special_tokens=False).ids == theirs.encode(text, add_special_tokens=False), text
