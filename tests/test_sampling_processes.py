"""What a head in another process is told, and tells, over real sockets: as a head at the coordinator's side does."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import Cluster, Layout, cluster

from truecluster._engine.engine import Engine
from truecluster._engine.requests import Event, FinishedEvent, Request, Sampling, TokenEvent

PROMPT, COUNT = tuple(b"Hello, hello"), 40
EVERYTHING: dict[str, Any] = {
    "temperature": 1.1,
    "top_k": 50,
    "top_p": 0.95,
    "min_p": 0.01,
    "repetition_penalty": 1.2,
    "presence_penalty": 0.4,
    "frequency_penalty": 0.3,
    "logit_bias": {104: 2.0, 32: -100.0},
}
ASKED = [
    Sampling(**EVERYTHING, seed=5, logprobs=3),
    Sampling(),
    Sampling(frequency_penalty=2.0, logprobs=0),
    Sampling(temperature=1.0, seed=-9),
]


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


def answers(made: Cluster) -> list[list[TokenEvent]]:
    """To every one of ``ASKED``, all under way at once."""
    engine = Engine(made.coordinator)
    engine.start()
    heard: list[queue.SimpleQueue[Event]] = [queue.SimpleQueue() for _ in ASKED]
    for sampling, events in zip(ASKED, heard, strict=True):
        request = Request(prompt=PROMPT, max_tokens=COUNT, eos=frozenset(), sampling=sampling)
        engine.submit(request, events.put)
    try:
        return [_tokens(events) for events in heard]
    finally:
        engine.stop(20)


def _tokens(events: queue.SimpleQueue[Event]) -> list[TokenEvent]:
    tokens: list[TokenEvent] = []
    while not isinstance(event := events.get(timeout=90), FinishedEvent):
        tokens.append(event)
    assert event.reason == "length", event.message
    return tokens


def ids(tokens: Sequence[TokenEvent]) -> list[int]:
    return [token.id for token in tokens]


def test_a_head_across_a_socket_samples_and_tells_as_one_at_hand(tiny: Path, work_dir: Path) -> None:
    """API-18: one split or another, and three other requests beside it."""
    with cluster(tiny, work_dir, Layout(nodes=1, transport="memory")) as made:
        expected = answers(made)
    with cluster(tiny, work_dir, Layout(nodes=2, transport="tcp", head="last-stage")) as made:
        found = answers(made)
    assert found == expected
    everything, plain, turns, _ = found
    assert 32 not in ids(everything)
    assert all(token.logprobs is not None and len(token.logprobs.top) == 3 for token in everything)
    assert all(token.logprobs is None for token in plain)
    assert all(token.logprobs is not None and token.logprobs.top == () for token in turns)
    assert len(set(ids(turns))) > len(set(ids(plain)))
