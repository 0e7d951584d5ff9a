"""The rules of a stage's sequences: pages are given, positions are checked, slots are used again."""

from __future__ import annotations

import pytest
import torch

from truecluster.api import Paged, Recurrent, Rotary, StateError
from truecluster.nn import PAGE, Row, SequenceState

PAGED = {0: Paged({"k": (2, 4), "v": (2, 4)})}


def state(states=PAGED, rotaries=(), pages=4, sequences=2) -> SequenceState:
    return SequenceState(states, rotaries, pages=pages, sequences=sequences)


def with_sequence(sequence: int = 7, pages: tuple[int, ...] = (2, 0), **numbers) -> SequenceState:
    held = state(**numbers)
    held.open(sequence)
    for page in pages:
        held.extend(sequence, page)
    return held


def test_a_page_is_32_tokens_and_layers_have_all_of_them():
    layer = state().layers[0]
    assert PAGE == 32
    assert {name: tuple(array.shape) for name, array in layer.arrays.items()} == {
        "k": (4, 32, 2, 4),
        "v": (4, 32, 2, 4),
    }


def test_a_batch_lays_out_a_ragged_step():
    held = with_sequence(7, (2, 0), rotaries=[Rotary(4, 1e4), Rotary(4, 1e4)], sequences=3)
    held.open(9)
    held.extend(9, 3)
    held.begin([Row(7, 0, 5)])
    batch = held.begin([Row(9, 0, 3), Row(7, 5, 2)])
    slots = batch.rows[:, 3].tolist()
    assert batch.rows[:, :3].tolist() == [[0, 3, 0], [3, 2, 5]]
    assert len(set(slots)) == 2
    assert set(slots) <= {0, 1, 2}
    assert batch.pages.tolist() == [[3, -1], [2, 0]]
    assert batch.positions.tolist() == [0, 1, 2, 5, 6]
    assert {t.dtype for t in (batch.rows, batch.pages, batch.positions)} == {torch.int32}
    assert [tuple(t.shape) for t in batch.tables[Rotary(4, 1e4)]] == [(5, 2), (5, 2)]
    assert (held.length(9), held.length(7)) == (3, 7)


def test_appending_leaves_no_gap():
    held = with_sequence()
    held.begin([Row(7, 0, 5)])
    with pytest.raises(StateError, match=r"sequence 7: a row at position 6 leaves a gap behind the 5 tokens"):
        held.begin([Row(7, 6, 1)])


def test_a_first_row_starts_at_0():
    with pytest.raises(StateError, match="gap behind the 0 tokens"):
        with_sequence().begin([Row(7, 1, 1)])


@pytest.mark.parametrize(("pages", "tokens"), [((), 1), ((2,), 33), ((2, 0), 65)])
def test_tokens_that_no_page_holds_are_refused(pages, tokens):
    held = with_sequence(pages=pages)
    with pytest.raises(StateError, match=rf"tokens up to {tokens} don't fit its {len(pages)} pages"):
        held.begin([Row(7, 0, tokens)])


def test_the_last_token_of_the_last_page_fits():
    held = with_sequence()
    held.begin([Row(7, 0, 64)])
    assert held.length(7) == 64


def test_a_row_below_the_length_truncates():
    held = with_sequence()
    held.begin([Row(7, 0, 40)])
    batch = held.begin([Row(7, 33, 2)])
    assert held.length(7) == 35
    assert batch.pages.tolist() == [[2, 0]]
    with pytest.raises(StateError, match="position 36 leaves a gap behind the 35"):
        held.begin([Row(7, 36, 1)])


def test_a_sequence_may_start_from_tokens_that_its_pages_hold():
    held = state()
    held.open(7, length=32)
    held.extend(7, 1)
    held.extend(7, 2)
    batch = held.begin([Row(7, 32, 1)])
    assert batch.rows[0, :3].tolist() == [0, 1, 32]
    assert batch.pages.tolist() == [[1, 2]]


@pytest.mark.parametrize("page", [-1, 4, 1 << 20])
def test_a_page_that_the_stage_does_not_have_is_refused(page):
    with pytest.raises(StateError, match=rf"sequence 7: page {page} is outside 0\.\.3"):
        with_sequence(pages=(page,))


@pytest.mark.parametrize("use", ["extend", "begin", "release", "length"])
def test_a_sequence_that_is_not_open_is_named(use):
    held = state()
    calls = {
        "extend": lambda: held.extend(5, 0),
        "begin": lambda: held.begin([Row(5, 0, 1)]),
        "release": lambda: held.release(5),
        "length": lambda: held.length(5),
    }
    with pytest.raises(StateError, match="sequence 5 is not open"):
        calls[use]()


def test_a_sequence_is_opened_once_and_only_where_a_slot_is_free():
    held = state(sequences=2)
    held.open(1)
    with pytest.raises(StateError, match="sequence 1 is open already"):
        held.open(1)
    held.open(2)
    with pytest.raises(StateError, match="sequence 3: all 2 sequence slots are taken"):
        held.open(3)
    held.release(1)
    held.open(3)


def slot_of(held: SequenceState, sequence: int) -> int:
    return int(held.begin([Row(sequence, held.length(sequence), 1)]).rows[0, 3])


def test_a_slot_used_again_starts_clean():
    held = state({0: Recurrent({"s": (3,)}, snapshots=2)}, sequences=1)
    held.open(1)
    held.extend(1, 0)
    slot = slot_of(held, 1)
    held.layers[0].arrays["s"][slot] = 5.0
    slot_of(held, 1)
    held.release(1)
    held.open(2)
    held.extend(2, 0)
    assert held.layers[0].arrays["s"][slot].tolist() == [0, 0, 0]
    held.begin([Row(2, 0, 1)])
    held.begin([Row(2, 1, 1)])
    held.begin([Row(2, 2, 1)])
    with pytest.raises(StateError, match="without a snapshot"):  # what sequence 1 kept at 0 is gone
        held.begin([Row(2, 0, 1)])


def test_recurrent_state_can_not_start_from_cached_tokens():
    held = state({0: PAGED[0], 3: Recurrent({"s": (3,)})})
    with pytest.raises(StateError, match=r"layers \[3\] can't start from cached tokens"):
        held.open(1, length=32)


def run_recurrent(held: SequenceState, row: Row) -> None:
    """A layer that counts: its state is the number of tokens it has seen, written for each row's slot."""
    batch = held.begin([row])
    for _, tokens, _, slot in batch.rows.tolist():
        held.layers[0].arrays["s"][slot] += tokens


def test_truncating_recurrent_state_needs_a_snapshot():
    held = with_sequence(states={0: Recurrent({"s": (1,)}, snapshots=0)})
    run_recurrent(held, Row(7, 0, 4))
    run_recurrent(held, Row(7, 4, 1))
    with pytest.raises(StateError, match=r"sequence 7: recurrent layers \[0\] can't be truncated to 4 tokens"):
        held.begin([Row(7, 4, 1)])


def test_snapshots_are_of_where_the_latest_steps_began():
    held = with_sequence(states={0: Recurrent({"s": (1,)}, snapshots=2)})
    for row in (Row(7, 0, 4), Row(7, 4, 1), Row(7, 5, 1), Row(7, 6, 1)):
        run_recurrent(held, row)
    with pytest.raises(StateError, match="can't be truncated to 4 tokens"):
        held.begin([Row(7, 4, 1)])
    run_recurrent(held, Row(7, 5, 1))
    assert held.layers[0].arrays["s"].max() == 6
    run_recurrent(held, Row(7, 6, 3))
    assert held.layers[0].arrays["s"].max() == 9
    run_recurrent(held, Row(7, 5, 1))
    assert held.layers[0].arrays["s"].max() == 6


def test_a_snapshot_behind_the_truncation_is_dropped():
    held = with_sequence(states={0: Recurrent({"s": (1,)}, snapshots=3)})
    for row in (Row(7, 0, 4), Row(7, 4, 2), Row(7, 6, 1)):
        run_recurrent(held, row)
    run_recurrent(held, Row(7, 4, 5))
    with pytest.raises(StateError, match="can't be truncated to 6 tokens"):
        held.begin([Row(7, 6, 1)])
