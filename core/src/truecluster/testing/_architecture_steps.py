"""Rules of architectures about steps: chunks, ragged groups, truncation, reused pages; against the model itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from truecluster.api import Architecture, Recurrent
from truecluster.nn import PAGE

from ._architecture import ArchitectureSuite, close
from ._network import Piece, Sequences

NEAR = 1e-4
LONG = 2 * PAGE + 9
"""Tokens over more than two pages."""


class StepRules(ArchitectureSuite):
    """Whatever way tokens are dealt over steps, the logits are the same."""

    def test_chunks_are_as_one_step(self, architecture: Architecture) -> None:
        """A prompt in chunks, with single tokens between, has the logits of the prompt in one step."""
        model = self.model(architecture)
        ids = model.ids(LONG)
        for steps in ((41, 1, 1, LONG - 43), (PAGE, LONG - PAGE), (1,) * 5 + (LONG - 5,)):
            ours = torch.cat(run(Sequences(model.network(), [LONG]), pieces(ids, steps)))
            whole = model.network().logits(ids, [LONG])
            close(ours, whole, NEAR, "the logits of one step", tokens_of_each_step=steps)

    def test_sequences_of_a_step_are_as_alone(self, architecture: Architecture) -> None:
        """Sequences of different lengths and positions in one step have the logits that each has alone."""
        model = self.model(architecture)
        plans = ((35, 1, 1, 7), (3, 20, 1, 1), (1, 1, 33, 5))
        ids = [model.ids(sum(plan), seed) for seed, plan in enumerate(plans)]
        of_each = [pieces(tokens, plan, i) for i, (tokens, plan) in enumerate(zip(ids, plans, strict=True))]
        together = Sequences(model.network(), [len(tokens) for tokens in ids])
        steps = [step_of(together, group) for group in zip(*of_each, strict=True)]
        for i, plan in enumerate(plans):
            ours = torch.cat([step[i] for step in steps])
            alone = torch.cat(run(Sequences(model.network(), [LONG]), pieces(ids[i], plan)))
            inputs = {"tokens_of_each_step": plan, "beside": [other for other in plans if other != plan]}
            close(ours, alone, NEAR, "the logits of the sequence alone", **inputs)

    def test_truncation_leaves_no_trace(self, architecture: Architecture) -> None:
        """A sequence that was truncated and goes on has the logits of one that never had what was cut off."""
        model = self.model(architecture)
        if any(isinstance(state, Recurrent) for state in model.network().states.values()):
            return  # core sets recurrent state back itself
        ids, cut = model.ids(LONG), model.ids(LONG, seed=2)
        for kept, length in ((37, 5), (30, 30), (1, 40)):
            sequences = Sequences(model.network(), [LONG])
            run(sequences, [(0, 0, ids[:kept]), (0, kept, cut[:length])])
            after = run(sequences, [(0, kept, ids[kept:])])
            straight = run(Sequences(model.network(), [LONG]), pieces(ids, (kept, LONG - kept)))[1:]
            close(after[0], straight[0], NEAR, "the logits without what was cut off", kept=kept, cut_off=length)

    def test_a_new_sequence_finds_nothing_in_used_pages(self, architecture: Architecture) -> None:
        """A sequence in pages that held another one has the logits that it has in fresh pages."""
        model = self.model(architecture)
        sequences = Sequences(model.network(), [LONG])
        run(sequences, [(0, 0, model.ids(LONG, seed=2))])
        sequences.state.release(0)
        sequences.open(0)
        used, fresh = (run(each, [(0, 0, model.ids(9))])[0] for each in (sequences, Sequences(model.network(), [LONG])))
        close(used, fresh, NEAR, "the logits in fresh pages", pages_held=f"{LONG} tokens")


def pieces(ids: torch.Tensor, steps: Sequence[int], sequence: int = 0) -> list[Piece]:
    """A sequence's share of each step."""
    starts = [sum(steps[:i]) for i in range(len(steps))]
    return [(sequence, start, ids[start : start + count]) for start, count in zip(starts, steps, strict=True)]


def step_of(sequences: Sequences, group: Sequence[Piece]) -> tuple[torch.Tensor, ...]:
    """The logits of each piece of one step."""
    return torch.split(sequences.step(*group), [len(ids) for _, _, ids in group])


def run(sequences: Sequences, each: Sequence[Piece]) -> list[torch.Tensor]:
    """The logits of steps of one piece each."""
    return [sequences.step(piece) for piece in each]
