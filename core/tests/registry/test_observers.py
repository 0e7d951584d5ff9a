"""Events reach observers; what an observer does reaches nobody."""

from __future__ import annotations

import logging
import queue
import threading

import pytest

from truecluster._registry import Events, Observer, Registry
from truecluster.api import NodeLost, PlannerSpec, WeightsProgress, hookimpl


def lost(number: int) -> NodeLost:
    return NodeLost(node=str(number), reason="gone")


def observer(call, name: str = "tcplug-a") -> Observer:
    return Observer(call, name, "1.0")


def test_every_observer_hears_every_event_in_order_on_a_thread_of_its_own():
    heard, threads = {"a": [], "b": []}, {}

    def hears(name):
        def call(event):
            heard[name].append(event)
            threads[name] = threading.current_thread()

        return observer(call, name)

    events = Events([hears("a"), hears("b")])
    for number in range(100):
        events.emit(lost(number))
    events.close(timeout=60)
    assert heard["a"] == heard["b"] == [lost(number) for number in range(100)]
    assert len({*threads.values(), threading.current_thread()}) == 3
    assert not any(thread.is_alive() for thread in threads.values())


@pytest.mark.parametrize("error", [RuntimeError("no disk"), SystemExit("no disk")])
def test_one_that_raises_is_named_once_and_hears_on_and_the_others_hear_all(caplog, error):
    heard, others = [], []

    def fails(event):
        heard.append(event)
        raise error

    events = Events([observer(fails, "tcplug-bad"), observer(others.append)])
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            events.emit(lost(number))
        events.close(timeout=60)
    assert heard == others == [lost(0), lost(1), lost(2)]
    assert caplog.messages == [
        f"the event observer of tcplug-bad 1.0 failed: at NodeLost: {type(error).__name__}: no disk"
    ]


def test_one_that_is_slow_loses_events_is_named_once_and_holds_nobody_up(caplog):
    held, began, heard, others = threading.Event(), threading.Event(), [], queue.SimpleQueue()

    def slow(event):
        began.set()
        held.wait()
        heard.append(event)

    events = Events([observer(slow, "tcplug-slow"), observer(others.put)], room=4)
    with caplog.at_level(logging.WARNING):
        for number in range(10):
            events.emit(lost(number))
            assert others.get(timeout=60) == lost(number)
            began.wait()
        held.set()
        events.close(timeout=60)
    assert heard == [lost(number) for number in range(5)]
    assert caplog.messages == [
        "the event observer of tcplug-slow 1.0 is too slow: 4 events wait for it, and later ones are left out"
    ]


def test_one_that_never_returns_is_named_and_left_alone(caplog):
    held, began = threading.Event(), threading.Event()

    def stuck(event):
        began.set()
        held.wait()

    events = Events([observer(stuck, "tcplug-stuck")])
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            events.emit(lost(number))
        began.wait()
        events.close(timeout=0.05)
    assert caplog.messages == [
        "the event observer of tcplug-stuck 1.0 didn't end: it is left alone with 2 events that it hasn't heard"
    ]
    events.emit(lost(9))
    held.set()


def test_progress_is_told_at_times_and_at_the_end():
    heard = []
    events = Events([observer(heard.append)])
    for done in range(1, 1001):
        events.emit(WeightsProgress(run=1, node="a", done=done, total=1000))
        events.emit(WeightsProgress(run=1, node="b", done=done, total=2000))
    events.close(timeout=60)
    assert heard[0] == WeightsProgress(run=1, node="a", done=1, total=1000)
    assert [event.done for event in heard if event.node == "a"][-1] == 1000
    assert next(event.done for event in heard if event.node == "b") == 1
    assert len(heard) < 100


def test_without_observers_there_are_no_threads():
    before = set(threading.enumerate())
    events = Events()
    events.emit(lost(0))
    assert set(threading.enumerate()) <= before
    events.close(timeout=60)


def test_a_plugin_observes_beside_what_it_offers():
    heard = []

    class Plugin:
        @hookimpl
        def truecluster_event(self, event):
            heard.append(event)

        @hookimpl
        def truecluster_planners(self):
            yield PlannerSpec(name="greedy", target="a:b")

    registry = Registry()
    registry.register(Plugin(), "tcplug-a", "1.0")
    assert registry.failures == []
    assert [offer.spec.name for offer in registry.offers("planner")] == ["greedy"]
    events = Events(registry.observers)
    events.emit(lost(0))
    events.close(timeout=60)
    assert heard == [lost(0)]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("def truecluster_event():", "truecluster_event() must be declared as def truecluster_event(event)"),
        ("async def truecluster_event(event):", "truecluster_event is async; hooks are plain functions"),
        (
            "def truecluster_event(events):",
            "truecluster_event(events) must be declared as def truecluster_event(event)",
        ),
    ],
)
def test_an_observer_of_another_shape_is_a_failure(install, loaded, source, cause):
    install("tcplug-bad", "1.0", {"tcplug_bad.py": f"@hookimpl\n{source}\n    pass\n"})
    registry = loaded()
    assert registry.observers == []
    assert cause in str(registry.failures[0])
