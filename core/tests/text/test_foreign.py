"""Folders without a ``tokenizer.json``: what transformers itself can build, and what takes the model's own code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece

from truecluster._text.tokenizer import Tokenizer
from truecluster.api import CheckpointError, TokenizerData

TEXTS = ["the quick brown fox jumps over the lazy dog", "hello world, hello model", "a b c d e f"] * 20
CODE = """
from pathlib import Path
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

class LettersTokenizer(PreTrainedTokenizerFast):
    def __init__(self, **options):
        library = Tokenizer(models.BPE(vocab={chr(i): i for i in range(128)}, merges=[]))
        library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        super().__init__(tokenizer_object=library, **options)
        Path(__file__).with_name("it-ran").touch()
"""


@pytest.fixture
def pieces(tmp_path: Path) -> tuple[Path, sentencepiece.SentencePieceProcessor]:
    """A folder with nothing but ``tokenizer.model``, and the library that reads it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        model_type="bpe",
        vocab_size=300,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
        **{"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1},
    )
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 300}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    return tmp_path, sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.filterwarnings("ignore:builtin type Swig.*:DeprecationWarning")
def test_a_tokenizer_model_gives_sentencepieces_ids(
    pieces: tuple[Path, sentencepiece.SentencePieceProcessor],
) -> None:
    folder, library = pieces
    data = TokenizerData(json=None, bos="<s>", eos="</s>", add_bos=True, folder=str(folder))
    tokenizer = Tokenizer(data, trust_remote_code=True)
    for text in ("hello world", "the  lazy fox", "dog é 猫"):
        assert tokenizer.encode_prompt(text) == [1, *library.encode(text)]
        assert tokenizer.decode(library.encode(text)) == text


def test_what_transformers_cannot_read_is_said_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    (tmp_path / "tokenizer.model").write_bytes(b"nonsense")
    data = TokenizerData(json=None, folder=str(tmp_path))
    with pytest.raises(CheckpointError, match=r"can't build the model's tokenizer.* a copy of it that has"):
        Tokenizer(data, trust_remote_code=True)


@pytest.mark.parametrize("trusted", [False, True])
def test_the_models_own_code_runs_only_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    folder, modules = tmp_path / "own", tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.syspath_prepend(str(modules))
    (folder / "tokenization_letters.py").write_text(CODE)
    facts = {"auto_map": {"AutoTokenizer": [None, "tokenization_letters.LettersTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    data = TokenizerData(json=None, folder=str(folder))
    if trusted:
        assert Tokenizer(data, trust_remote_code=True).encode_prompt("ab") == [97, 98]
    else:
        with pytest.raises(CheckpointError, match="add --trust-remote-code if you trust the model's author"):
            Tokenizer(data)
    assert bool(list(modules.rglob("it-ran"))) is trusted
