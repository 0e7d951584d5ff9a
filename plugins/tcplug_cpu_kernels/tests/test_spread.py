"""Which processors the threads of a call run on."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch
from tcplug_cpu_kernels import native

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
THREADS = Path("/proc/self/task")

pytestmark = [
    pytest.mark.skipif(native.path() is None, reason="the library wasn't built: there is no C compiler"),
    pytest.mark.skipif(len(CPUS) < 2 or not THREADS.is_dir(), reason="needs Linux and two processors"),
]


def norm(threads):
    rows, normed = torch.ones(64, 4096), torch.empty(64, 4096)
    address = rows.data_ptr()
    native.library().tc_norm(address, 1e-6, address, normed.data_ptr(), *rows.shape, threads)


def bound_by(threads):
    """Processors of each thread that a call from a fresh thread binds."""
    found: list[list[int]] = []

    def call():
        before = {each.name for each in THREADS.iterdir()}
        norm(threads)
        team = [threading.get_native_id(), *(int(each.name) for each in THREADS.iterdir() if each.name not in before)]
        found.extend(sorted(os.sched_getaffinity(thread)) for thread in team)

    caller = threading.Thread(target=call)
    caller.start()
    caller.join()
    return sorted(cpus for cpus in found if cpus != CPUS)


def test_a_team_that_takes_every_processor_has_a_thread_on_each():
    native.library()
    assert bound_by(len(CPUS)) == [[cpu] for cpu in CPUS]


def test_a_smaller_or_larger_team_is_left_to_the_system():
    native.library()
    assert bound_by(len(CPUS) - 1) == bound_by(len(CPUS) + 1) == []


def test_the_thread_that_starts_others_is_never_bound():
    norm(len(CPUS))
    assert sorted(os.sched_getaffinity(os.getpid())) == CPUS
