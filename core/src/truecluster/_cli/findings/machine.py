"""Python, torch, cores, limits and the clock."""

from __future__ import annotations

import os
import platform
import struct
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from .finding import FAIL, OK, WARN, Finding

FILES = 1024
"""Open files that a coordinator with some dozens of nodes and clients may need."""
DAY_S = 86400.0


def look() -> Iterator[Finding]:
    """Needs no plugin."""
    yield _python()
    yield _torch()
    yield _cores()
    yield from _open_files()
    yield _clock(time.time(), Path(__file__).stat().st_mtime)


def _python() -> Finding:
    bits = struct.calcsize("P") * 8
    text = f"truecluster {version('truecluster')}, Python {platform.python_version()} of {bits} bits, {sys.executable}"
    if bits < 64:
        return Finding("python", text, FAIL, "models need a Python of 64 bits; install one")
    return Finding("python", text)


def _torch() -> Finding:
    try:
        import torch
    except (Exception, SystemExit) as error:
        text = f"torch can't be imported: {type(error).__name__}: {error}"
        return Finding("torch", text, FAIL, "install it again: pip install --force-reinstall torch")
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {hip}" if (hip := torch.version.hip) else ""
    return Finding("torch", f"{torch.__version__}, built {f'with {build}' if build else 'without CUDA and ROCm'}")


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{usable} of {os.cpu_count()} can be used, {platform.machine()}, {platform.system()} {platform.release()}"
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads is not None and threads != str(usable):
        return Finding("cores", f"{text}; OMP_NUM_THREADS={threads}", WARN, "unset OMP_NUM_THREADS, or give --threads")
    return Finding("cores", text)


def _open_files() -> Iterator[Finding]:
    """Nothing where the system has no such limit."""
    try:
        import resource
    except ImportError:
        return
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = soft == resource.RLIM_INFINITY
    few = not unlimited and soft < FILES
    text = f"{'any number' if unlimited else soft} may be open at once"
    remedy = f"raise it before starting: ulimit -n {FILES}" if few else None
    yield Finding("files", text, WARN if few else OK, remedy)


def _clock(now: float, installed: float) -> Finding:
    text = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < installed - DAY_S:
        return Finding("clock", f"{text}, which is before this program was installed", WARN, "set the system's clock")
    return Finding("clock", text)
