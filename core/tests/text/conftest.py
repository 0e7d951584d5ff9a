"""A tokenizer small enough to compute by hand: a token is a byte, and its id the byte's value."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from truecluster.api import TokenizerData

START, END, EOT, TOOL = 256, 257, 258, 259


def alphabet() -> list[str]:
    """GPT-2's letters in the order of their bytes, as its ``bytes_to_unicode`` makes them."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]


def byte_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={letter: byte for byte, letter in enumerate(alphabet())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>", "<|endoftext|>")]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return tokenizer


@pytest.fixture(scope="session")
def byte_data() -> TokenizerData:
    return TokenizerData(json=byte_tokenizer().to_str(), bos="<|endoftext|>", eos="<|endoftext|>")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
