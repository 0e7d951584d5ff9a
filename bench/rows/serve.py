"""What the engine does with many requests."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.figures import Figure, Settings
from tools.system import resident

sys.path.append(str(Path(__file__).parents[2] / "core" / "tests" / "helpers"))

from soak import Soak

COUNT = 10_000
WARM = 500
SECONDS = 60.0
GROWTH_MB = 16.0


def soak(settings: Settings) -> Iterator[Figure]:
    """10,000 mixed requests on a random two-layer model in this process, a fifth cancelled midway; taken once."""
    chance = random.Random(0)
    with Soak.began(chance) as soaked:
        soaked.ask(WARM, chance)
        before, began = resident(), time.monotonic()
        soaked.ask(COUNT, chance)
        seconds, grown = time.monotonic() - began, resident() - before
    yield Figure(name="soak", samples=[seconds], unit="s", higher=False, target=SECONDS)
    yield Figure(name="soak, memory growth", samples=[grown / 1e6], unit="MB", higher=False, target=GROWTH_MB)
    yield Figure(name="soak, wrong answers", samples=[len(soaked.wrong)], unit="", higher=False, target=0)
