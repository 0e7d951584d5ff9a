"""What an engine is asked, checked where it is said."""

from __future__ import annotations

import pytest

from truecluster._engine.requests import Request, Sampling
from truecluster._wire import limits
from truecluster.api import RequestError

NAN, INF = float("nan"), float("inf")
REFUSED = {
    "temperature": [-0.1, NAN, INF],
    "top_k": [-1, 1 << 31],
    "top_p": [-0.1, 1.1, NAN],
    "min_p": [-0.1, 1.1, NAN],
    "repetition_penalty": [0, -1, NAN, INF, 101],
    "presence_penalty": [-2.1, 2.1, NAN],
    "frequency_penalty": [-2.1, 2.1, INF],
    "logprobs": [-1, 21],
    "seed": [1 << 63, -(1 << 63) - 1],
}
TAKEN = {
    "temperature": [0, 2, 1e-40],
    "top_k": [0, 1, 10**9],
    "top_p": [0, 1],
    "min_p": [0, 1],
    "repetition_penalty": [0.01, 100],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [-2, 2],
    "logit_bias": [{}, {0: -100, 151_000: 100}],
    "logprobs": [None, 0, 20],
    "seed": [None, 0, (1 << 63) - 1, -(1 << 63)],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_number_out_of_range_is_named(name, value):
    """SAMP-03."""
    with pytest.raises(RequestError, match=rf"'{name}' must be from .* to .*, not {value}") as caught:
        Sampling(**{name: value})
    assert caught.value.param == name


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in TAKEN.items() for value in values])
def test_numbers_at_the_borders_are_taken(name, value):
    assert getattr(Sampling(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("bias", "word"),
    [
        ({-1: 5.0}, "'logit_bias' names -1, which is no token id"),
        ({1 << 31: 5.0}, f"'logit_bias' names {1 << 31}, which is no token id"),
        ({5: 1e308}, r"'logit_bias' of token 5 must be from -100 to 100, not 1e\+308"),
        ({7: NAN}, "'logit_bias' of token 7 must be from -100 to 100, not nan"),
        (dict.fromkeys(range(4097), 0.0), "'logit_bias' names 4097 tokens; give at most 4096"),
    ],
)
def test_a_bias_that_is_none_names_its_token(bias, word):
    """SEC-04."""
    with pytest.raises(RequestError, match=word) as caught:
        Sampling(logit_bias=bias)
    assert caught.value.param == "logit_bias"


def test_a_prompt_is_told_up_to_what_one_message_can_say():
    asked = {"max_tokens": 0, "eos": frozenset(), "prompt_logprobs": True}
    Request(prompt=(1,) * limits.MAX_TOKENS, **asked)
    with pytest.raises(RequestError, match="at most 131072 tokens can be echoed"):
        Request(prompt=(1,) * (limits.MAX_TOKENS + 1), **asked)
