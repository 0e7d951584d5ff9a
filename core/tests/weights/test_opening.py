"""References lead to a checkpoint, or say where they led."""

from __future__ import annotations

import pytest
from checkpoints import MemoryCheckpoint

from truecluster._weights.opening import open_checkpoint
from truecluster.api import CheckpointError, CheckpointSource, OpenOptions

CHECKPOINT = MemoryCheckpoint({}, {})


class Leads(CheckpointSource):
    """Every reference leads where a table says."""

    def __init__(self, table) -> None:
        self.table = table
        self.asked: list[tuple[str, OpenOptions]] = []

    def checkpoint_source(self, reference):
        if reference not in self.table:
            raise CheckpointError(f"model reference {reference!r} is of no known form")
        return self

    def open(self, reference, options):
        self.asked.append((reference, options))
        return self.table[reference]


def test_a_reference_is_followed_until_something_opens():
    options = OpenOptions(cache_dir="somewhere")
    leads = Leads({"ORG/NAME": "/a/folder", "/a/folder": "/a/folder/model.gguf", "/a/folder/model.gguf": CHECKPOINT})
    assert open_checkpoint(leads, "ORG/NAME", options) is CHECKPOINT
    assert leads.asked == [(name, options) for name in ("ORG/NAME", "/a/folder", "/a/folder/model.gguf")]


@pytest.mark.parametrize("table", [{"a": "a"}, {"a": "b", "b": "a"}])
def test_references_that_lead_to_each_other_come_to_an_end(table):
    with pytest.raises(CheckpointError, match=r"model reference 'a' leads nowhere: a → "):
        open_checkpoint(Leads(table), "a", OpenOptions())


def test_a_hop_to_nowhere_is_the_sources_own_error():
    with pytest.raises(CheckpointError, match="'/gone' is of no known form"):
        open_checkpoint(Leads({"a": "/gone"}), "a", OpenOptions())
