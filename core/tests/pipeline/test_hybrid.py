"""A toy hybrid of one paged and one recurrent block, over two stages, with two sequences."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from local_runs import LocalRun, start_run
from tiny_models import RAW, TinyDecoder, TinyModel, decoder_hidden, head_logits, normed

from truecluster import api, nn
from truecluster._pipeline.run import Step
from truecluster._wire.steps import Opened, Page, Row
from truecluster.api import Span, StateError

DECAY = 0.75


@attrs.frozen(cache_hash=True)
class Decay(api.Description):
    """``hidden + s``, where ``s`` of a token is ``DECAY · s`` of the one before plus a linear of the norm."""

    norm: nn.Norm
    inner: nn.Linear

    def forward(self, hidden: torch.Tensor, batch: nn.Batch, state: nn.RecurrentState) -> torch.Tensor:
        new, sums = self.inner(self.norm(hidden)), state.arrays["s"]
        out = torch.empty_like(hidden)
        for first, tokens, _, slot in batch.rows.tolist():
            for token in range(first, first + tokens):
                sums[slot] = DECAY * sums[slot] + new[token]
                out[token] = hidden[token] + sums[slot]
        return out


class Hybrid(TinyDecoder):
    """Attention in layer 0, the recurrence in layer 1."""

    def __init__(self, snapshots: int) -> None:
        self.snapshots = snapshots

    def build(self, config: Any, part: api.Part) -> api.Description:
        if part != api.Block(1):
            return super().build(config, part)
        inner = nn.Linear(api.Slot("block.1.in", api.Role.LINEAR, (config.hidden, config.hidden)))
        return Decay(nn.decoder_norm(config, "block.1.norm"), inner)

    def rotary(self, config: Any, layer: int) -> api.Rotary | None:
        return config.rope if layer == 0 else None

    def state(self, config: Any, layer: int) -> api.State:
        if layer == 0:
            return super().state(config, layer)
        return api.Recurrent({"s": (config.hidden,)}, snapshots=self.snapshots)


def by_hand(model: TinyModel, ids: list[int]) -> list[int]:
    """The likeliest token behind each of ``ids``, in fp64; every margin is far above rounding."""
    hidden = decoder_hidden(attrs.evolve(model.config, layers=1), model.weights, ids)
    new = normed(model.config, model.weights, hidden, "block.1.norm") @ model.weights["block.1.in"].double().T
    sums = torch.zeros_like(new)
    for i in range(len(ids)):
        sums[i] = new[i] + (DECAY * sums[i - 1] if i else 0)
    logits = head_logits(model.config, model.weights, hidden + sums)
    best = logits.topk(2).values
    assert float((best[:, 0] - best[:, 1]).min()) > 1e-3
    return logits.argmax(-1).tolist()


class Pair:
    """A run of two stages with two open sequences; `feed` sends a step and returns a token behind each of its own."""

    def __init__(self, snapshots: int) -> None:
        self.model = TinyModel.make(seed=6, architecture=Hybrid(snapshots), num_hidden_layers=2)
        stages = [self.model.stage(span) for span in (Span(0, 1, embed=True), Span(1, 2, head=True))]
        self.local: LocalRun = start_run(stages)
        self._opened = False

    def feed(self, *parts: tuple[int, int, list[int]]) -> list[list[int]]:
        first = not self._opened
        self._opened = True
        step = Step(
            rows=tuple(Row(sequence, position, len(ids), len(ids)) for sequence, position, ids in parts),
            ids=[id for _, _, ids in parts for id in ids],
            opened=(Opened(1), Opened(2)) if first else (),
            pages=(Page(1, 3), Page(2, 1)) if first else (),
        )
        self.local.run.send(step)
        tokens = iter(self.local.run.receive().ids)
        return [[next(tokens) for _ in ids] for _, _, ids in parts]


@pytest.fixture
def pair(request):
    pair = Pair(request.param)
    yield pair
    pair.local.run.complete()
    pair.local.stop()


ONE, TWO = [4, 9, 33, 2, 17, 50, 8, 60], [11, 12, 13, 14, 40, 41, 42]


@pytest.mark.parametrize("pair", [0, 2], indirect=True)
def test_appending_is_exact(pair):
    found = {1: [], 2: []}
    for one, two in ((range(0, 5), range(0, 3)), (range(5, 6), range(3, 4)), (range(6, 8), range(4, 7))):
        tokens = pair.feed((2, two[0], [TWO[i] for i in two]), (1, one[0], [ONE[i] for i in one]))
        found[2] += tokens[0]
        found[1] += tokens[1]
    assert found == {1: by_hand(pair.model, ONE), 2: by_hand(pair.model, TWO)}


def start(pair: Pair) -> None:
    pair.feed((1, 0, ONE[:5]), (2, 0, TWO[:3]))
    pair.feed((1, 5, ONE[5:6]), (2, 3, TWO[3:4]))
    pair.feed((2, 4, TWO[4:5]), (1, 6, ONE[6:7]))


@pytest.mark.parametrize("pair", [2], indirect=True)
@pytest.mark.parametrize("cut", [5, 6])
def test_truncating_to_a_snapshot_is_exact(pair, cut):
    start(pair)
    instead = [30, 31, 32]
    two, one = pair.feed((2, 5, TWO[5:6]), (1, cut, instead))
    assert one == by_hand(pair.model, ONE[:cut] + instead)[cut:]
    assert two == by_hand(pair.model, TWO[:6])[5:]
    one, two = pair.feed((1, cut + 3, [7]), (2, 6, TWO[6:7]))
    assert one == by_hand(pair.model, [*ONE[:cut], *instead, 7])[-1:]
    assert two == by_hand(pair.model, TWO)[-1:]


@pytest.mark.parametrize(("pair", "cut"), [(0, 6), (0, 5), (1, 5), (2, 4)], indirect=["pair"])
def test_truncating_to_where_there_is_no_snapshot_is_the_documented_error(pair, cut):
    start(pair)
    with pytest.raises(StateError, match=rf"sequence 1: recurrent layers \[1\] can't be truncated to {cut} tokens"):
        pair.feed((1, cut, [30]), (2, 5, TWO[5:6]))
    assert isinstance(pair.local.run.failure, StateError)


def test_the_toy_reads_what_it_should():
    model = TinyModel.make(architecture=Hybrid(0), num_hidden_layers=2)
    assert model.config.layers == RAW["num_hidden_layers"] - 1
    assert {key for key in model.weights if key.startswith("block.1")} == {"block.1.norm", "block.1.in"}
