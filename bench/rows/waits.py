"""How long who comes waits for a first token, and what that costs those who have one already."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from load.client import Client
from load.streams import Streams
from load.target import Target
from load.work import text
from tools.figures import Figure, Settings
from tools.serving import answered, count_on, ours

STREAMS = 8
LONGEST = 3000
"""Tokens of a stream that is to outlast what is measured."""
CALM = 40
"""Tokens of each stream that show what it is like undisturbed."""
SHORT, LONG, SHARED = 16, 2000, 1000
"""Words of prompts, about a token each."""
STEPS, STRETCH, REUSED = 3.0, 4.0, 0.25
PROMPTS = 2


def serve_short(settings: Settings) -> Iterator[Figure]:
    """0.5B over two nodes, int4: a short request among eight streams, its TTFT less what it is alone; in their gaps."""
    chance = random.Random(1)
    with ours("int4", settings) as target:
        alone = _first_tokens(target, 2 * settings.runs, chance)
        with Streams(target, _streams()) as streams:
            begin = streams.client.now()
            streams.wait_for(CALM)
            step = median(streams.gaps(begin, streams.client.now()))
            among = _first_tokens(target, 4 * settings.runs, chance)
            streams.check()
    own = median(alone)
    steps = sorted((each - own) / step for each in among)
    how = (
        f"median of {len(steps)}, {steps[0]:.1f} to {steps[-1]:.1f}; step {1e3 * step:.1f} ms, alone {1e3 * own:.1f} ms"
    )
    yield Figure(
        name="short request among eight", samples=[median(steps)], unit="steps", higher=False, target=STEPS, how=how
    )


def serve_gaps(settings: Settings) -> Iterator[Figure]:
    """0.5B over two nodes, int4: p99 gap of eight streams while 2,000-token prompts come / their undisturbed median."""
    chance = random.Random(2)
    with ours("int4", settings) as target, Streams(target, _streams()) as streams:
        begin = streams.client.now()
        streams.wait_for(CALM)
        calm = streams.gaps(begin, begin := streams.client.now())
        long = [answered(Client(target).ask(_prompt(LONG, chance))) for _ in range(PROMPTS)]
        gaps = streams.gaps(begin, streams.client.now())
        streams.check()
    step = median(calm)
    times = ", ".join(f"{1e3 * each:.0f}" for each in np.quantile(gaps, (0.5, 0.9, 0.99)))
    how = (
        f"{len(gaps)} gaps, p50/90/99 {times} ms; undisturbed {1e3 * step:.1f} ms; "
        f"{PROMPTS} prompts of {long[0].prompt_tokens} tokens in turn, each in {median(s.ttft for s in long):.1f} s"
    )
    stretch = float(np.quantile(gaps, 0.99)) / step
    yield Figure(
        name="p99 gap while long prompts come", samples=[stretch], unit="", higher=False, target=STRETCH, how=how
    )


def serve_prefix(settings: Settings) -> Iterator[Figure]:
    """0.5B over two nodes, int4: TTFT of a second chat with the same 1,000-token system prompt / the first's."""
    chance = random.Random(3)
    with ours("int4", settings) as target:
        answered(Client(target).ask(_prompt(SHORT, chance)))
        pairs = [_two_chats(target, chance) for _ in range(settings.runs)]
    ratios = sorted(second / first for first, second, _ in pairs)
    first, second, tokens = (median(side) for side in zip(*pairs, strict=True))
    how = (
        f"median of {len(pairs)}, {ratios[0]:.3f} to {ratios[-1]:.3f}; "
        f"{tokens:.0f} tokens, {1e3 * first:.0f} and {1e3 * second:.0f} ms"
    )
    yield Figure(name="TTFT, second / first", samples=[median(ratios)], unit="", higher=False, target=REUSED, how=how)


def _streams() -> list[dict[str, Any]]:
    return [count_on(100 + 10 * stream, LONGEST) for stream in range(STREAMS)]


def _prompt(words: int, chance: random.Random) -> dict[str, Any]:
    return {"prompt": text(words, chance), "max_tokens": 1, "temperature": 0}


def _first_tokens(target: Target, count: int, chance: random.Random) -> list[float]:
    """Seconds to the first token of so many short requests, which come one after another at odd moments."""
    found = []
    for _ in range(count):
        time.sleep(chance.uniform(0.05, 0.15))
        found.append(answered(Client(target).ask(_prompt(SHORT, chance))).ttft)
    return found


def _two_chats(target: Target, chance: random.Random) -> tuple[float, float, int]:
    """Seconds to the first token of each, and the tokens of the second one's prompt."""
    system = {"role": "system", "content": text(SHARED, chance)}
    found = []
    for _ in range(2):
        user = {"role": "user", "content": text(SHORT, chance)}
        found.append(answered(Client(target).ask({"messages": [system, user], "max_tokens": 1, "temperature": 0})))
    return found[0].ttft, found[1].ttft, found[1].prompt_tokens
