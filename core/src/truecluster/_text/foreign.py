"""Tokenizers without a ``tokenizer.json``: only transformers, and often the model's own code, can build them."""

from __future__ import annotations

from truecluster.api import CheckpointError, TokenizerData


def tokenizer_json(data: TokenizerData, trust_remote_code: bool) -> str:
    """The ``tokenizer.json`` that transformers makes of the model's files. Raises `CheckpointError` with the remedy."""
    if data.folder is None:
        raise CheckpointError("the model has no tokenizer; use a copy of it that has a tokenizer.json")
    if not trust_remote_code:
        raise CheckpointError(
            "the model has no tokenizer.json, so code from its own files may have to build the tokenizer; "
            "use a copy that has one, or add --trust-remote-code if you trust the model's author"
        )
    return _converted(data.folder)


def _converted(folder: str) -> str:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise CheckpointError("a tokenizer without tokenizer.json needs 'pip install transformers'") from error
    try:
        built = AutoTokenizer.from_pretrained(folder, trust_remote_code=True, local_files_only=True)
    except Exception as error:  # whatever the model's own code raises
        raise CheckpointError(
            f"transformers can't build the model's tokenizer: {error} (it may need 'pip install sentencepiece protobuf "
            "tiktoken'); else use a copy of it that has a tokenizer.json"
        ) from error
    if not built.is_fast:
        raise CheckpointError("the model's tokenizer has no tokenizer.json form; use a model that has one")
    return str(built.backend_tokenizer.to_str())
