"""``tc doctor``: each finding that can be provoked, and that nothing broken keeps it from the rest."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from truecluster._cli import findings, main
from truecluster._cli.findings import (
    FAIL,
    OK,
    WARN,
    Asked,
    Finding,
    devices,
    folders,
    machine,
    models,
    network,
    plugins,
)
from truecluster._registry import PluginFailure, Registry
from truecluster.api import CheckpointSpec, DeviceSpec, KernelSpec, PlannerSpec, hookimpl

Usage = namedtuple("Usage", "total used free")


class One:
    """Offers whose targets are in this module, by a name that only the test knows."""

    def __init__(self, *specs):
        self._specs = specs

    def of(self, kind):
        return [spec for spec in self._specs if isinstance(spec, kind)]

    @hookimpl
    def truecluster_devices(self):
        return self.of(DeviceSpec)

    @hookimpl
    def truecluster_kernels(self):
        return self.of(KernelSpec)

    @hookimpl
    def truecluster_checkpoints(self):
        return self.of(CheckpointSpec)

    @hookimpl
    def truecluster_planners(self):
        return self.of(PlannerSpec)


@pytest.fixture
def offering(tmp_path, monkeypatch):
    """A registry of specs whose targets are classes of a module with the given source."""

    def make(source: str, *specs) -> Registry:
        (tmp_path / "doctored.py").write_text(f"from truecluster.api import *\n{source}")
        registry = Registry()
        registry.register(One(*specs), "tcplug-one", "1.0")
        return registry

    monkeypatch.syspath_prepend(tmp_path)
    yield make
    sys.modules.pop("doctored", None)


def test_a_folder_that_can_be_made_is_well_and_not_made(tmp_path):
    found = folders.folder("x", tmp_path / "a" / "b", "elsewhere")
    assert (found.state, found.remedy) == (OK, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "state"), [(10**7, FAIL), (10**9, WARN), (10**10, OK)])
def test_a_full_folder(tmp_path, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**12, 0, free))
    found = folders.folder("x", tmp_path, "take another")
    assert found.state == state
    assert f"{free} bytes" in found.text
    assert found.remedy == (None if state == OK else "free some, or take another")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    found = folders.folder("x", tmp_path / "file" / "below", "take another")
    assert (found.state, found.remedy) == (FAIL, "take another")
    assert found.text == f"{tmp_path}/file/below can't be written: Not a directory"


def test_the_clock_that_stands_before_the_installation():
    assert machine._clock(1_700_000_000, 1_600_000_000) == Finding("clock", "2023-11-14 22:13:20 UTC")
    late = machine._clock(0, 1_600_000_000)
    assert (late.state, late.remedy) == (WARN, "set the system's clock")


def test_few_files(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    (found,) = machine._open_files()
    assert found == Finding("files", "256 may be open at once", WARN, "raise it before starting: ulimit -n 1024")


def test_a_torch_that_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    found = machine._torch()
    assert (found.state, found.remedy) == (FAIL, "install it again: pip install --force-reinstall torch")


def test_threads_that_are_bounded_from_outside(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "977")
    found = machine._cores()
    assert (found.state, found.text.endswith("OMP_NUM_THREADS=977")) == (WARN, True)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = network._port(taken.getsockname()[1], "--api-port")
    assert (found.state, found.remedy) == (WARN, "end what listens there, or choose another with --api-port")


def test_a_family_of_addresses_that_the_machine_lacks(monkeypatch):
    monkeypatch.setattr(network, "_refused", lambda family, host: None if host == "127.0.0.1" else "no such address")
    found = {finding.name: finding for finding in network.look()}
    assert (found["loopback"].state, found["IPv6"].state) == (OK, WARN)


def test_plugins_that_fail_and_clash_and_cannot_be_imported(offering):
    registry = offering("class Wrong: pass", PlannerSpec(name="wrong", target="doctored:Wrong"))
    for name in "ab":
        registry.register(One(PlannerSpec(name="twice", target="doctored:Wrong")), f"tcplug-{name}", "2.0")
    registry.failures.append(PluginFailure("tcplug-bad", "3.0", ImportError("no libgomp")))
    found = {finding.name: finding for finding in plugins.look(registry)}
    assert {name: finding.state for name, finding in found.items()} == {
        "installed": OK,
        "tcplug-bad": FAIL,
        "planner/twice": WARN,
        "planner/wrong": FAIL,
    }
    assert "ImportError: no libgomp" in found["tcplug-bad"].text
    assert found["tcplug-bad"].remedy == "upgrade or uninstall it, or leave it out with --without-plugins tcplug-bad"
    assert "tcplug-a 2.0 and by tcplug-b 2.0" in found["planner/twice"].text
    assert "doctored:Wrong is not a subclass of truecluster.api.Planner" in found["planner/wrong"].text


DEVICES = """
class Base(DeviceBackend):
    def open(self, id, threads=None): raise NotImplementedError
class There(Base):
    def detect(self): return [DeviceInfo(id="x:0", kind="x", name="Fast", total=8 * 10**9, free=5 * 10**8)]
class Away(Base):
    def detect(self): return []
class Blind(Away):
    def absent(self): return "a driver is there, but torch was built without it; install another torch"
class Raises(Base):
    def detect(self): raise OSError("driver fell over")
"""


def device(name: str) -> DeviceSpec:
    return DeviceSpec(name=name.lower(), target=f"doctored:{name}")


def test_devices_and_why_there_is_none(offering):
    registry = offering(DEVICES, *map(device, ("Raises", "Blind", "Away", "There")))
    assert list(devices.look(registry)) == [
        Finding(
            "raises",
            "'raises' of tcplug-one 1.0 failed: OSError: driver fell over",
            FAIL,
            "upgrade or uninstall it, or leave it out with --without-plugins tcplug-one",
        ),
        Finding("blind", "a driver is there, but torch was built without it", WARN, "install another torch"),
        Finding("away", "none on this machine"),
        Finding("x:0", "Fast: 0.5 GB of 8.0 GB free", WARN, "end other programs, or let more nodes share the model"),
    ]


def test_a_machine_without_any_device(offering):
    *_, last = devices.look(offering(DEVICES, device("Away")))
    assert (last.name, last.state) == ("any", FAIL)


KERNELS = """
class Base(Kernel):
    def accepts(self, description, target): return False
    def prepare(self, slot, packed, target): raise NotImplementedError
    def bind(self, description, handles, target): raise NotImplementedError
    def resident_bytes(self, format, shape): return 0
class Wide(Base):
    def details(self): return "AVX9"
class Unbuilt(Base):
    def unavailable(self): return "there is no library; install a C compiler"
class Raises(Base):
    def unavailable(self): raise OSError("bad library")
"""


def test_kernels_and_why_they_cannot_be_used(offering):
    names = ("Wide", "Unbuilt", "Raises")
    registry = offering(KERNELS, *(KernelSpec(name=name, target=f"doctored:{name}", rank=1) for name in names))
    found = {finding.name: finding for finding in devices.look_at_kernels(registry)}
    assert found["Wide"] == Finding("Wide", "usable: AVX9")
    assert found["Unbuilt"] == Finding("Unbuilt", "there is no library", WARN, "install a C compiler")
    assert (found["Raises"].state, "bad library" in found["Raises"].text) == (FAIL, True)
    assert found["reference"].state == OK


SOURCES = """
class Base(CheckpointSource):
    def open(self, reference, options): raise NotImplementedError
class Far(Base):
    def folder(self, options): return "/proc/none/such"
    def unreachable(self, patience): return f"no answer in {patience:g} s; connect"
"""


def test_sources_that_cannot_be_reached_or_cannot_keep_what_they_fetch(offering):
    specs = [CheckpointSpec(name=name, target=f"doctored:{name}", forms=(f"{name}:",)) for name in ("Base", "Far")]
    found = list(models.look(offering(SOURCES, *specs)))
    assert found[:2] == [
        Finding("Base", "opens what lies on this machine: Base:"),
        Finding("Far", "no answer in 10 s", WARN, "connect"),
    ]
    assert (found[2].name, found[2].state) == ("Far downloads", FAIL)


def test_what_raises_and_what_hangs_does_not_keep_the_rest_from_being_seen(tmp_path):
    held = threading.Event()

    def hangs(asked):
        yield Finding("first", "seen")
        held.wait(60)
        yield Finding("second", "never seen")

    def raises(asked):
        raise RuntimeError("broken")

    areas = {"hangs": hangs, "raises": raises, "well": lambda asked: [Finding("last", "seen")]}
    found = list(findings.survey(Asked(Registry(), tmp_path), areas, patience=1))
    held.set()
    assert [(area, finding.name, finding.state) for area, finding in found] == [
        ("hangs", "first", OK),
        ("hangs", "hangs", FAIL),
        ("raises", "raises", FAIL),
        ("well", "last", OK),
    ]
    assert "no answer within 1 s" in found[1][1].text
    assert "RuntimeError: broken" in found[2][1].text


@pytest.fixture
def tc(monkeypatch, capsys):
    def run(found: list[Finding], *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(findings, "survey", lambda asked: [("machine", each) for each in found])
        monkeypatch.setattr(sys, "argv", ["tc", "doctor", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return run


FOUND = [Finding("python", "3.11"), Finding("port 8000", "taken", WARN, "take another")]


def test_the_report(tc):
    code, out, _ = tc(FOUND)
    assert (code, out.splitlines()) == (
        0,
        [
            "machine",
            "  ok    python: 3.11",
            "  warn  port 8000: taken",
            "        -> take another",
            "",
            "1 well, 1 to know of, 0 to mend",
        ],
    )


def test_a_failure_ends_with_one_and_json_says_the_same(tc):
    code, out, _ = tc([*FOUND, Finding("x", "broken", FAIL, "mend it")], "--json", "--work-dir", str(Path.cwd()))
    report = json.loads(out)
    assert (code, report["healthy"]) == (1, False)
    assert report["findings"][1:] == [
        {"area": "machine", "name": "port 8000", "text": "taken", "state": "warn", "remedy": "take another"},
        {"area": "machine", "name": "x", "text": "broken", "state": "fail", "remedy": "mend it"},
    ]
