"""The shared library: found, loaded, and its structs and calls as ``c/tc.h`` declares them."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from truecluster.api import PluginError

REMEDY = (
    "install a C compiler (gcc or clang) and then the package again: "
    "pip install --force-reinstall --no-deps tcplug-cpu-kernels"
)

Pointer, Int, Long, Float = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class Matrix(ctypes.Structure):
    """``tc_matrix``."""

    _fields_ = (
        *((name, Pointer) for name in ("data", "scale", "minimum", "bias")),
        *((name, Long) for name in ("out", "width", "groups")),
        *((name, Int) for name in ("format", "span")),
    )


class Block(ctypes.Structure):
    """``tc_block``."""

    _fields_ = (
        *((name, Matrix) for name in ("q", "k", "v", "o", "gate", "up", "down")),
        *((name, Pointer) for name in ("attention_norm", "mlp_norm")),
        *((name, Float) for name in ("attention_eps", "mlp_eps", "scale")),
        *((name, Int) for name in ("heads", "kv_heads", "head_dim", "rotary_dim", "padding")),
    )


class Step(ctypes.Structure):
    """``tc_step``."""

    _fields_ = (
        *((name, Pointer) for name in ("rows", "pages", "cos", "sin")),
        *((name, Int) for name in ("row_count", "width")),
    )


class Cache(ctypes.Structure):
    """``tc_cache``."""

    _fields_ = (
        *((name, Pointer) for name in ("keys", "values")),
        *((name, Int) for name in ("page_count", "sliding")),
    )


_CALLS = {
    "tc_level": (ctypes.c_int, ()),
    "tc_use": (ctypes.c_int, (ctypes.c_int,)),
    "tc_has_threads": (ctypes.c_int, ()),
    "tc_linear_scratch": (Long, (Pointer, Long)),
    "tc_block_scratch": (Long, (Pointer, Long)),
    "tc_linear": (None, (Pointer, Pointer, Pointer, Long, Pointer, ctypes.c_int)),
    "tc_embed": (ctypes.c_int, (Pointer, Pointer, Pointer, Long, ctypes.c_int)),
    "tc_norm": (None, (Pointer, Float, Pointer, Pointer, Long, Long, ctypes.c_int)),
    "tc_attend": (ctypes.c_int, (*(Pointer,) * 6, Long, Int, Int, Int, Float, ctypes.c_int)),
    "tc_block_forward": (ctypes.c_int, (*(Pointer,) * 5, Long, Pointer, ctypes.c_int)),
}
BEST = 1 << 20
"""For ``tc_use``: the best instruction set that the machine has."""


def path(folder: Path = Path(__file__).parent) -> Path | None:
    """Where the library lies, ``None`` where it wasn't built."""
    candidates = (folder / f"_kernels{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((found for found in candidates if found.is_file()), None)


@cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises `PluginError` saying why there is none, and what to do."""
    found = path()
    if found is None:
        raise PluginError(f"the CPU kernels were installed without a C compiler, so there is no library; {REMEDY}")
    try:
        loaded = ctypes.CDLL(str(found))
    except OSError as error:
        raise PluginError(f"the library of the CPU kernels doesn't load ({error}); {REMEDY}") from error
    for name, (result, arguments) in _CALLS.items():
        call = getattr(loaded, name)
        call.restype, call.argtypes = result, arguments
    loaded.tc_use(BEST)
    return loaded
