"""``tc plugin list``."""

from __future__ import annotations

import json
import re
import sys

import pytest

from truecluster._cli import main, plugin
from truecluster._registry import PluginFailure, Registry
from truecluster.api import DeviceSpec, PlannerSpec, hookimpl

REASON = "ImportError: no libgomp; mend it, or leave it out with --without-plugins tcplug-bad"


class One:
    @hookimpl
    def truecluster_planners(self):
        yield PlannerSpec(name="even", target="a:b", summary="By bytes.")
        yield PlannerSpec(name="twice", target="a:b", summary="Never shown.")

    @hookimpl
    def truecluster_devices(self):
        yield DeviceSpec(name="cpu", target="a:b")


class Two:
    @hookimpl
    def truecluster_planners(self):
        yield PlannerSpec(name="twice", target="a:b")


@pytest.fixture
def tc(monkeypatch, capsys):
    registry = Registry()
    registry.register(One(), "tcplug-one", "1.0")
    registry.register(Two(), "tcplug-two", "20.0")
    registry.failures.append(PluginFailure("tcplug-bad", "3.0", ImportError("no libgomp"), "bad.py:7"))
    monkeypatch.setattr(plugin, "_surveyed", lambda: registry)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tc", "plugin", "list", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


def test_the_table_has_a_row_per_offer_and_names_clashes_and_failures(tc):
    code, out, err = tc()
    assert code == 0
    assert out.splitlines() == [
        "KIND     NAME   DISTRIBUTION  VERSION  SUMMARY",
        "planner  even   tcplug-one    1.0      By bytes.",
        "planner  twice  tcplug-one    1.0      (clashes with another offer)",
        "planner  twice  tcplug-two    20.0     (clashes with another offer)",
        "device   cpu    tcplug-one    1.0",
    ]
    failed, clash = err.splitlines()
    assert failed == f"tc: a plugin failed: tcplug-bad 3.0 ({REASON}; at bad.py:7)"
    assert re.fullmatch(
        "tc: planner 'twice' is offered by tcplug-one 1.0 and by tcplug-two 20.0; uninstall one of them, or leave one "
        rf"out with --without-plugins; at {__file__}:\d+ and {__file__}:\d+",
        clash,
    )


def test_one_kind_can_be_asked_for(tc):
    _, out, _ = tc("device")
    assert [line.split()[1] for line in out.splitlines()] == ["NAME", "cpu"]


def test_json_holds_the_same(tc):
    code, out, err = tc("device", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "offers": [
            {
                "kind": "device",
                "name": "cpu",
                "distribution": "tcplug-one",
                "version": "1.0",
                "summary": "",
                "conflict": False,
            }
        ],
        "failures": [{"distribution": "tcplug-bad", "version": "3.0", "cause": REASON, "place": "bad.py:7"}],
    }


def test_a_kind_that_does_not_exist_is_the_users_mistake(tc):
    code, out, err = tc("gadget")
    assert (code, out) == (2, "")
    assert err.startswith("tc: there is no plugin kind 'gadget'; kinds: architecture, ")
