"""The contract of checkpoint sources that only locate: they are given a reference, and answer with a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from truecluster.api import CheckpointError, CheckpointSource, OpenOptions

from ._contract import Contract, Installed
from ._missing import missing
from .rules import refusal, require

Locate = Callable[[str], str]
PATIENCE_S = 1.0
"""Seconds for a source to ask whether what it fetches from is there."""


class LocatorContract(Contract):
    """Name ``offer``, and give `publish` and ``unknown``."""

    KIND = "checkpoint"
    unknown: ClassVar[str] = ""
    """A reference of the right form that leads nowhere."""

    def publish(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """Make one small model reachable, without a network, and say its reference.

        ``folder`` is empty and for what is published; ``monkeypatch`` is for what leads the source there.
        """
        raise missing(self, "publish(folder, monkeypatch)", "the reference of a small model that is reachable then")

    @pytest.fixture
    def reference(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """What was published."""
        (tmp_path / "published").mkdir()
        return self.publish(tmp_path / "published", monkeypatch)

    @pytest.fixture
    def cache(self, tmp_path: Path) -> Path:
        """Where it is to keep what it fetches."""
        return tmp_path / "cache"

    @pytest.fixture
    def said(self) -> list[str]:
        """The lines for the user."""
        return []

    @pytest.fixture
    def source(self, installed: Installed) -> CheckpointSource:
        """The source under test."""
        made: CheckpointSource = installed.target()
        return made

    @pytest.fixture
    def locate(self, source: CheckpointSource, cache: Path, said: list[str]) -> Locate:
        """Asks the source under test, and holds that it answers with a text."""

        def ask(reference: str) -> str:
            found = source.open(reference, OpenOptions(cache_dir=str(cache), say=said.append))
            require(isinstance(found, str), "a path, as a text", found, reference=reference)
            return str(found)

        return ask

    def test_a_reference_leads_to_what_exists(self, locate: Locate, reference: str) -> None:
        """What `open` answers is the path of a file or a folder that is there."""
        found = Path(locate(reference))
        require(found.exists(), "a path that exists", found.name, reference=reference)

    def test_what_is_fetched_lies_in_the_cache(self, locate: Locate, reference: str, cache: Path) -> None:
        """With ``cache_dir`` given, what is fetched is kept there and nowhere else."""
        found = Path(locate(reference))
        require(found.is_relative_to(cache), f"a path below {cache}", found, reference=reference)

    def test_the_folder_of_downloads_is_told(
        self, source: CheckpointSource, locate: Locate, reference: str, cache: Path
    ) -> None:
        """`folder` says where what is fetched is kept: what `open` answers lies below it."""
        found, told = Path(locate(reference)), source.folder(OpenOptions(cache_dir=str(cache)))
        holds = isinstance(told, str) and found.is_relative_to(told)
        require(holds, f"a folder that has {found.name}", repr(told), reference=reference)

    def test_what_keeps_from_fetching_is_said(self, source: CheckpointSource, reference: str) -> None:
        """`unreachable` is None, or says to the user why nothing new can be fetched; it raises nothing."""
        reason = source.unreachable(PATIENCE_S)
        holds = reason is None or (isinstance(reason, str) and bool(reason.strip()))
        require(holds, "None, or why nothing can be fetched", repr(reason), reference=reference)

    def test_the_second_time_it_leads_to_the_same(self, locate: Locate, reference: str) -> None:
        """The same reference leads to the same path while nothing changes."""
        first, second = locate(reference), locate(reference)
        require(first == second, first, second, reference=reference)

    def test_fetching_is_said(self, locate: Locate, reference: str, said: list[str]) -> None:
        """A user who waits is told what for: ``say`` gets a line where something is fetched."""
        locate(reference)
        require(any(said), "at least one line", said, reference=reference)

    def test_an_unknown_reference_is_named(self, locate: Locate, reference: str) -> None:
        """`open` raises `CheckpointError` that names a reference that leads nowhere."""
        if not self.unknown:
            raise missing(self, "unknown", "a reference of the right form that leads nowhere")
        name = self.unknown.rpartition(":")[2]
        with refusal(CheckpointError, name, reference=self.unknown):
            locate(self.unknown)

    def test_a_failure_leaves_nothing_behind(self, locate: Locate, reference: str, cache: Path) -> None:
        """Where nothing is found, no file stays in the cache."""
        with pytest.raises(Exception):  # noqa: B017, PT011 - which one is another rule's
            locate(self.unknown)
        left = [path.name for path in cache.rglob("*") if path.is_file()]
        require(not left, "no files", left, reference=self.unknown)
