"""Many mixed requests at once, a fifth cancelled midway: every answer is right, and nothing is left."""

from __future__ import annotations

import random
import threading
import time

from soak import Soak
from tiny_models import TinyModel

COUNT = 1000
MODEL = TinyModel.make(num_hidden_layers=2, hidden_size=16, intermediate_size=16)


def greedy(prompt: tuple[int, ...], most: int, eos: frozenset[int]) -> list[int]:
    """By an independent forward of the whole sequence."""
    ids = MODEL.greedy(prompt, most)
    return ids[: next((i for i, id in enumerate(ids) if id in eos), len(ids))]


def test_thousands_of_requests_leave_nothing_behind_and_get_what_they_get_alone():
    """`make bench` asks ten times as many."""
    chance = random.Random(4)
    with Soak.began(chance) as soak:
        for kind, right in zip(soak.kinds, soak.right, strict=True):
            if kind.sampling.seed is None:
                assert right == greedy(kind.prompt, kind.max_tokens, kind.eos)
        threads = set(threading.enumerate())
        soak.ask(COUNT, chance)
        assert soak.wrong == []
        assert 0.15 < soak.ends["cancelled"] / COUNT < 0.25
        assert soak.ends.total() == COUNT
        deadline = time.monotonic() + 20
        while any(soak.left().values()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert soak.left() == dict.fromkeys(soak.left(), 0)
        assert set(threading.enumerate()) <= threads
