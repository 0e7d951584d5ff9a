"""How many tokens a second a server gives: beside llama.cpp's, to eight at once, and under a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import attrs
from load.client import Body, Client
from load.loops import Closed
from load.samples import Summary
from load.target import Target
from tools.figures import Figure, Settings
from tools.serving import ONE_STAGE, answered, count_on, llama, ours

STREAMS = 8
TOKENS, WARM_UP = 64, 8
SHARE, GROWTH = 0.7, 2.5
NUMBERS, MOST = 8, 64
"""Of the answer to a request with a schema, and its most tokens."""


@attrs.frozen
class _Rates:
    """Tokens a second: ``whole`` from the first request's start to the last one's end; ``decode`` of a typical stream
    after its first token."""

    whole: float
    decode: float

    @classmethod
    def of(cls, target: Target, bodies: Sequence[Body]) -> _Rates:
        """All of them at once."""
        found = Summary.of([*map(answered, Closed(len(bodies)).run(Client(target), bodies))])
        assert found.tpot_s is not None
        return cls(found.tokens_per_s, 1 / found.tpot_s.p50)


def serve_int4(settings: Settings) -> Iterator[Figure]:
    """0.5B int4, one stage in memory and two nodes, beside llama-server ($LLAMA_SERVER) with Q4_0 ($LLAMA_GGUF)."""
    yield from _beside_llama("int4", "LLAMA_GGUF", "Q4_0", settings)


def serve_int8(settings: Settings) -> Iterator[Figure]:
    """0.5B int8, one stage in memory and two nodes, beside llama-server ($LLAMA_SERVER) with Q8_0 ($LLAMA_GGUF_Q8)."""
    yield from _beside_llama("int8", "LLAMA_GGUF_Q8", "Q8_0", settings)


def serve_constrained(settings: Settings) -> Iterator[Figure]:
    """0.5B over two nodes, int4: chats that answer with numbers, with a JSON schema and without, in turns."""
    with ours("int4", settings) as target:
        _constrained(target, 0, 1)
        for streams in (1, STREAMS):
            pairs = [_constrained(target, round, streams) for round in range(1, settings.runs + 1)]
            yield _ratio(f"JSON schema / none, {streams} at once", [(a.decode, b.decode) for a, b in pairs])


def _beside_llama(quant: str, variable: str, width: str, settings: Settings) -> Iterator[Figure]:
    with ExitStack() as stack:
        peer = stack.enter_context(llama(variable, width, settings))
        one = stack.enter_context(ours(quant, settings, ONE_STAGE))
        two = stack.enter_context(ours(quant, settings))
        targets = peer, one, two
        _in_turn(targets, 100, WARM_UP)
        rounds = [_in_turn(targets, 1000 * round + 1000, TOKENS) for round in range(settings.runs)]
    for side, name in ((1, "one stage"), (2, "two nodes")):
        alone = [(ones[side].decode, ones[0].decode) for ones, _ in rounds]
        many = [(eights[side].whole, ones[side].whole) for ones, eights in rounds]
        yield _ratio(f"one stream {quant}, {name} / llama.cpp {width}", alone, SHARE)
        yield _ratio(f"eight streams {quant}, {name} / one", many, GROWTH)
        yield _ratio(f"eight streams {quant}, {name} / llama.cpp's", [(e[side].whole, e[0].whole) for _, e in rounds])


def _in_turn(targets: Sequence[Target], start: int, tokens: int) -> tuple[list[_Rates], list[_Rates]]:
    """Of each target, for one stream and for eight."""
    one, eight = ([count_on(start + streams + 10 * i, tokens) for i in range(streams)] for streams in (1, STREAMS))
    return [_Rates.of(target, one) for target in targets], [_Rates.of(target, eight) for target in targets]


def _constrained(target: Target, round: int, streams: int) -> tuple[_Rates, _Rates]:
    """With a schema, and without; the answers are as long as the model makes them."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": NUMBERS, "maxItems": NUMBERS}
    form = {"type": "json_schema", "json_schema": {"name": "numbers", "schema": schema, "strict": True}}
    free = [_chat(1000 * round + 10 * stream) for stream in range(streams)]
    return _Rates.of(target, [{**body, "response_format": form} for body in free]), _Rates.of(target, free)


def _chat(start: int) -> dict[str, Any]:
    words = f"Write a JSON array of the {NUMBERS} whole numbers that follow {start}, and nothing else."
    return {"messages": [{"role": "user", "content": words}], "max_tokens": MOST, "temperature": 0}


def _ratio(name: str, pairs: Sequence[tuple[float, float]], target: float | None = None) -> Figure:
    """The median of ``pairs``: what varies with the machine's hours is alike in both of a pair."""
    ratios = sorted(a / b for a, b in pairs)
    first, second = (median(side) for side in zip(*pairs, strict=True))
    how = f"median of pairs, {ratios[0]:.2f} to {ratios[-1]:.2f}; {first:.1f} and {second:.1f} tokens/s"
    return Figure(name=name, samples=[median(ratios)], unit="", target=target, how=how)
