"""Log-probabilities in OpenAI's two shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truecluster._text import Likely, Scored

Piece = Mapping[str, Any]

LEAST = -9999.0
"""What OpenAI says of tokens that are very unlikely; JSON has no infinity."""


def chat_logprobs(scores: Sequence[Scored]) -> Piece:
    """Those of a chat's choice: a list of ``ChatCompletionTokenLogprob``."""
    content = [{**_chat_token(one.token), "top_logprobs": [_chat_token(top) for top in one.top]} for one in scores]
    return {"content": content, "refusal": None}


def completion_logprobs(scores: Sequence[Scored]) -> Piece:
    """Those of a completion's choice; a token's own is among its top ones, also where it is none of the likeliest.

    Of a token that nothing comes before both are null, as OpenAI's are.
    """
    return {
        "tokens": [_name(one.token) for one in scores],
        "token_logprobs": [_finite(one.token) for one in scores],
        "top_logprobs": [_top(one) for one in scores],
        "text_offset": [one.offset for one in scores],
    }


def _top(one: Scored) -> Piece | None:
    if one.token.logprob is None:
        return None
    return {_name(each): _finite(each) for each in (*one.top, one.token)}


def _chat_token(token: Likely) -> dict[str, Any]:
    return {"token": token.data.decode(errors="replace"), "logprob": _finite(token), "bytes": list(token.data)}


def _name(token: Likely) -> str:
    """As OpenAI writes half a character, so that two halves have two names."""
    try:
        return token.data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.data)


def _finite(token: Likely) -> float | None:
    return None if token.logprob is None else max(token.logprob, LEAST)
