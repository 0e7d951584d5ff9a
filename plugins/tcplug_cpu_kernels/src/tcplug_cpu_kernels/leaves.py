"""Leaves in C: linear, embedding, norm, attend.

Tensors are fp32 on the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import torch

from truecluster.api import StateError
from truecluster.nn import Attend, Batch, Embedding, Linear, Norm, PagedState

from .native import library
from .workspace import Workspace, cache_of

Handles = Mapping[str, Any]


def bind_linear(linear: Linear, handles: Handles, workspace: Workspace) -> Callable[..., torch.Tensor]:
    matrix = handles[linear.weight.key]
    bias = handles[linear.bias.key] if linear.bias else None
    struct, lib, out = matrix.struct(bias), library(), linear.weight.shape[0]
    address = ctypes.addressof(struct)
    needed = lru_cache(partial(lib.tc_linear_scratch, address))

    def run(x: torch.Tensor, keep: Any = (matrix, bias, struct)) -> torch.Tensor:
        x = dense(x)
        n = x.shape[0]
        y = x.new_empty(n, out)
        room = workspace.at_least(needed(n))
        lib.tc_linear(address, x.data_ptr(), y.data_ptr(), n, room, torch.get_num_threads())
        return y

    return run


def bind_norm(norm: Norm, handles: Handles, workspace: Workspace) -> Callable[..., torch.Tensor]:
    weight, lib = handles[norm.weight.key].values, library()

    def run(hidden: torch.Tensor) -> torch.Tensor:
        hidden = dense(hidden)
        y = torch.empty_like(hidden)
        n, width = hidden.shape
        threads = torch.get_num_threads()
        lib.tc_norm(weight.data_ptr(), norm.eps, hidden.data_ptr(), y.data_ptr(), n, width, threads)
        return y

    return run


def bind_embedding(embedding: Embedding, handles: Handles, workspace: Workspace) -> Callable[..., torch.Tensor]:
    matrix = handles[embedding.weight.key]
    struct, lib, width = matrix.struct(), library(), matrix.shape[1]
    address = ctypes.addressof(struct)

    def run(ids: torch.Tensor, keep: Any = (matrix, struct)) -> torch.Tensor:
        ids = ids.int().contiguous()
        n = ids.shape[0]
        y = torch.empty(n, width)
        check(lib.tc_embed(address, ids.data_ptr(), y.data_ptr(), n, torch.get_num_threads()))
        return y

    return run


def bind_attend(attend: Attend, handles: Handles, workspace: Workspace) -> Callable[..., torch.Tensor]:
    lib, sizes = library(), (attend.heads, attend.kv_heads, attend.head_dim, attend.scale)
    cache = lru_cache(maxsize=1)(cache_of)  # of its layer: the same state step after step

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, state: PagedState) -> torch.Tensor:
        q, k, v = dense(q), dense(k), dense(v)
        y = torch.empty_like(q)
        structs = workspace.step(batch), ctypes.addressof(cache(state))
        tensors = (x.data_ptr() for x in (q, k, v, y))
        check(lib.tc_attend(*structs, *tensors, q.shape[0], *sizes, torch.get_num_threads()))
        return y

    return run


def dense(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, as the library reads it."""
    assert x.dtype is torch.float32, f"the CPU kernels compute in fp32, not {x.dtype}"
    return x.contiguous()


def check(result: int) -> None:
    """Raises `StateError` where the library refused a step."""
    if result:
        raise StateError("a step names tokens or pages outside its batch or the cache; nothing was computed")
