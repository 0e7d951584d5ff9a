"""A model's tokenizer: prompts and rendered chats to ids, ids to text."""

from __future__ import annotations

import re
from itertools import takewhile

import tokenizers
from tokenizers.decoders import ByteLevel

from truecluster.api import CheckpointError, RequestError, TokenizerData

from .control import ControlToken, ControlTokens, guard_for
from .detokenize import ByteDetokenizer, Detokenizer, WindowDetokenizer, byte_level
from .foreign import tokenizer_json

_FALLBACK = re.compile("<0x([0-9A-F]{2})>")
_ONLY_AT_THE_START = re.compile(r'("prepend_scheme"\s*:\s*)"first"')


def _built(json: str) -> tokenizers.Tokenizer:
    try:
        built = tokenizers.Tokenizer.from_str(json)
    except Exception as error:  # the library raises nothing more exact
        raise CheckpointError(f"the model's tokenizer.json can't be read: {error}; fetch the model again") from error
    built.no_truncation()
    built.no_padding()
    built.encode_special_tokens = True
    return built


def _control_tokens(built: tokenizers.Tokenizer) -> list[ControlToken]:
    added = built.get_added_tokens_decoder().items()
    return [
        ControlToken(id=id, text=token.content, lstrip=token.lstrip, rstrip=token.rstrip)
        for id, token in added
        if token.special and token.content
    ]


def _leading_ids(built: tokenizers.Tokenizer) -> list[int]:
    """What the tokenizer itself puts before a text; what it puts behind one isn't for a model that goes on."""
    encoding = built.encode("a")
    return [id for id, _ in takewhile(lambda pair: pair[1], zip(encoding.ids, encoding.special_tokens_mask))]  # noqa: B905


class Tokenizer:
    """Built from `TokenizerData`; safe to use from several threads.

    Raises `CheckpointError` where the data can't be read, and where code of the model's own would be needed but
    ``trust_remote_code`` isn't given.
    """

    def __init__(self, data: TokenizerData, *, trust_remote_code: bool = False) -> None:
        json = data.json if data.json is not None else tokenizer_json(data, trust_remote_code)
        self._inner = self._later = _built(json)
        if _ONLY_AT_THE_START.search(json):
            self._later = _built(_ONLY_AT_THE_START.sub(r'\1"never"', json))
        tokens = _control_tokens(self._inner)
        self.control = ControlTokens(tokens)
        self.bos, self.eos = data.bos, data.eos
        self.size = max(self._inner.get_vocab().values(), default=-1) + 1
        self._control_ids = frozenset(token.id for token in tokens)
        unknown = getattr(self._inner.model, "unk_token", None)
        self._never_from_text = self._control_ids - {self.id(unknown)}
        self._leading = self._leading_for(data)

    def _leading_for(self, data: TokenizerData) -> list[int]:
        """``add_bos`` decides about bos, the tokenizer about any other token."""
        bos = self.id(data.bos)
        first = [bos] if data.add_bos and bos is not None else []
        return first + [id for id in _leading_ids(self._inner) if id != bos]

    def id(self, token: str | None) -> int | None:
        """The id of a token given as its literal; ``None`` for a literal that is none."""
        return None if token is None else self._inner.token_to_id(token)

    def encode_prompt(self, text: str) -> list[int]:
        """A raw prompt: control tokens are parsed, and the model's leading tokens added unless they are there."""
        ids = self.encode_guarded(text, guard_for(text))
        return ids if ids[: len(self._leading)] == self._leading else self._leading + ids

    def encode_guarded(self, text: str, guard: str) -> list[int]:
        """A rendered chat, whose literals behind ``guard`` are plain text (see `control`); nothing is added."""
        ids: list[int] = []
        for place, piece in enumerate(self.control.split(text, guard)):
            ids += [piece.id] if isinstance(piece, ControlToken) else self._plain(piece, place)
        return ids

    def _plain(self, text: str, place: int) -> list[int]:
        if not text:
            return []
        inner = self._later if place else self._inner
        ids = inner.encode(text, add_special_tokens=False).ids
        if not self._never_from_text.isdisjoint(ids):
            raise RequestError("this model's tokenizer makes control tokens of plain text in the prompt; reword it")
        return ids

    def encode_inside(self, text: str) -> list[int]:
        """The ids of plain text that is neither a prompt's beginning nor its end."""
        return self._later.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int], control: bool = False) -> str:
        """The text of ``ids``; ``control``: with the literals of special tokens."""
        return self._inner.decode(ids, skip_special_tokens=not control)

    def bytes_of(self, id: int) -> bytes:
        """What a token adds inside a text: half a character too, a special token's literal, nothing for no token."""
        letters = self._inner.id_to_token(id) or ""
        if self.is_control(id):
            return letters.encode()
        if isinstance(self._inner.decoder, ByteLevel):
            return byte_level(letters)
        alone = self.decode([id])
        byte = _FALLBACK.fullmatch(letters)
        return bytes.fromhex(byte[1]) if byte and alone != letters else self.decode([id, id])[len(alone) :].encode()

    def is_control(self, id: int) -> bool:
        """Whether ``id`` is a special token, which has no text."""
        return id in self._control_ids

    def detokenizer(self) -> Detokenizer:
        """A new one, for one sequence; `is_control` tells which ids it must not be given."""
        if isinstance(self._inner.decoder, ByteLevel):
            return ByteDetokenizer(self._inner.id_to_token)
        return WindowDetokenizer(self.decode)
