"""What an engine is asked, checked where it is said."""

from __future__ import annotations

import pytest

from truecluster._engine.requests import Sampling
from truecluster.api import RequestError


@pytest.mark.parametrize(
    "field",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"seed": 1 << 63},
        {"seed": -(1 << 63) - 1},
    ],
)
def test_a_number_out_of_range_is_named(field):
    ((name, value),) = field.items()
    with pytest.raises(RequestError, match=rf"'{name}' must be from .* to .*, not {value}") as caught:
        Sampling(**field)
    assert caught.value.param == name


@pytest.mark.parametrize("seed", [None, 0, (1 << 63) - 1, -(1 << 63)])
def test_numbers_at_the_borders_are_taken(seed):
    for temperature in (0, 2, 1e-40):
        for top_p in (0, 1):
            Sampling(temperature=temperature, top_p=top_p, seed=seed)
