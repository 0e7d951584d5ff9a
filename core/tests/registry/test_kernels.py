"""Kernels are not chosen by name: every one that can run is used."""

from __future__ import annotations

import pytest

from truecluster.api import PluginError

SOURCE = """
class Fast(Kernel):
    accepts = prepare = bind = resident_bytes = None

class Elsewhere(Fast):
    def unavailable(self):
        return "needs AVX-512, this CPU has AVX2"

class Broken(Fast):
    def unavailable(self):
        raise OSError("no such library")

@hookimpl
def truecluster_kernels():
    yield KernelSpec(name="slow", target="tcplug_k:Fast", rank=1)
    yield KernelSpec(name="fast", target="tcplug_k:Fast", rank=9)
    yield KernelSpec(name="elsewhere", target="tcplug_k:Elsewhere", rank=10)
    yield KernelSpec(name="broken", target="tcplug_k:Broken", rank=10)
    yield KernelSpec(name="absent", target="tcplug_k:Absent", rank=10)
"""


def test_the_available_ones_come_by_rank_and_the_others_with_a_reason(install, loaded):
    install("tcplug-k", "1.0", {"tcplug_k.py": SOURCE})
    kernels = loaded().kernels()
    assert [(name, rank) for name, rank, _ in kernels.available] == [("fast", 9), ("slow", 1)]
    assert {type(kernel).__name__ for _, _, kernel in kernels.available} == {"Fast"}
    assert set(kernels.unavailable) == {"elsewhere", "broken", "absent"}
    assert kernels.unavailable["elsewhere"] == "needs AVX-512, this CPU has AVX2"
    assert kernels.unavailable["broken"] == "OSError: no such library"
    assert "Absent" in kernels.unavailable["absent"]


def test_clashing_names_are_an_error(install, loaded):
    install("tcplug-k", "1.0", {"tcplug_k.py": SOURCE})
    install("tcplug-l", "1.0", {"tcplug_l.py": SOURCE.replace("tcplug_k", "tcplug_l")})
    with pytest.raises(PluginError, match=r"kernel 'slow' is offered by tcplug-k 1\.0 and by tcplug-l 1\.0"):
        loaded().kernels()
