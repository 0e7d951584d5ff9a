"""A free answer, decoded token by token, as a client asks for one."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from truecluster._engine.engine import Engine
from truecluster._engine.requests import Event, FinishedEvent, Request
from truecluster.api import DType, NodeError

from .cluster import Chosen
from .goldens import Case

TOKENS = 24
SECONDS = 120.0


def generate(made: Chosen, nodes: Sequence[str], dtype: DType, case: Case) -> int:
    """How many tokens came. Raises `NodeError` where the answer doesn't complete."""
    made.choose(nodes, dtype)
    ended, last = threading.Event(), list[FinishedEvent]()

    def hear(event: Event) -> None:
        if isinstance(event, FinishedEvent):
            last.append(event)
            ended.set()

    engine = Engine(made)
    engine.start()
    try:
        engine.submit(Request(prompt=case.ids, max_tokens=TOKENS, eos=frozenset()), hear)
        if not ended.wait(SECONDS):
            raise NodeError(f"an answer over {', '.join(nodes)} didn't complete within {SECONDS:g} s")
    finally:
        engine.stop(20)
    if last[0].message is not None:
        raise NodeError(f"an answer over {', '.join(nodes)} failed: {last[0].message}")
    return last[0].generated
