"""What a cluster says of itself: faults, rates, and tasks under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from truecluster._cluster.faults import KEPT, Faults, without_folders
from truecluster._cluster.meter import Meter
from truecluster._cluster.report import Overheard


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_latest_faults_come_first_and_the_same_ones_are_counted() -> None:
    clock = Clock()
    faults = Faults(clock)
    for at, message in ((1.0, "a was lost"), (2.0, "b was lost"), (3.0, "a was lost")):
        clock.now = at
        faults.note(message)
    clock.now = 4.5
    assert faults.view() == [
        {"message": "a was lost", "count": 2, "seconds_ago": 1.5},
        {"message": "b was lost", "count": 1, "seconds_ago": 2.5},
    ]


def test_only_so_many_are_kept_and_none_is_long() -> None:
    faults = Faults()
    for number in range(3 * KEPT):
        faults.note(f"{number} " + "x" * 10_000)
    view = faults.view()
    assert [fault["message"].split()[0] for fault in view] == [str(n) for n in range(3 * KEPT - 1, 2 * KEPT - 1, -1)]
    assert max(len(fault["message"]) for fault in view) == 500


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("can't read /root/.cache/tc/units/ab: gone", "can't read …/ab: gone"),
        ("can't read '/home/me/a.gguf'", "can't read '…/a.gguf'"),
        (r"can't read C:\Users\me\a.gguf", "can't read …/a.gguf"),
        ("node a at 10.0.0.1:7001, blocks 0/3", "node a at 10.0.0.1:7001, blocks 0/3"),
        ("see http://127.0.0.1:8000/v1/models", "see http://127.0.0.1:8000/v1/models"),
        ("edge a → b: 3 MB/s", "edge a → b: 3 MB/s"),
    ],
)
def test_no_folder_is_told(text: str, shown: str) -> None:
    assert without_folders(text) == shown


def test_a_rate_is_of_the_last_seconds() -> None:
    """3 a second for 10 s, then 1 a second for 10 s, looked at every second."""
    value = {"steps": 0.0}
    meter = Meter(lambda: dict(value))
    assert meter.rate("steps") is None
    for second in range(11):
        value["steps"] = 3.0 * second
        meter.look(second)
    assert meter.rate("steps") == 3.0
    for second in range(11, 21):
        value["steps"] += 1.0
        meter.look(second)
        assert meter.rate("steps") == pytest.approx((3.0 * (20 - second) + (second - 10)) / 10)
    assert meter.rate("steps") == 1.0


def test_a_counter_that_is_new_or_gone_has_a_rate_of_its_own() -> None:
    seen = iter([{"a": 1.0}, {"a": 2.0, "b": 50.0}, {"b": 54.0}, {"b": 54.0}])
    meter = Meter(lambda: next(seen))
    for second in range(3):
        meter.look(2.0 * second)
    assert (meter.rate("a"), meter.rate("b"), meter.rate("c")) == (0.5, 2.0, None)
    meter.look(4.0)
    assert meter.rate("b") == 2.0


class Recorded:
    """A `Report` that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        yield lambda done: self.lines.append(f"{name} {done}/{total}")


def test_tasks_are_known_while_they_last_and_everything_is_passed_on() -> None:
    told = Recorded()
    report = Overheard(told)
    report.say("hello")
    with report.task("packing", 10) as one, report.task("packing", 20) as other:
        one(3)
        other(4)
        assert report.view() == [
            {"task": "packing", "done": 3, "total": 10},
            {"task": "packing", "done": 4, "total": 20},
        ]
    with pytest.raises(ZeroDivisionError), report.task("loading", 1):
        raise ZeroDivisionError
    assert report.view() == []
    assert told.lines == ["hello", "packing 3/10", "packing 4/20"]
