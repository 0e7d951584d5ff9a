"""A whole decoder block in one call of the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch

from truecluster.nn import Attend, Attention, Batch, DecoderBlock, GatedMLP, Linear, Linears, Norm, PagedState

from .leaves import Handles, check, dense
from .native import Block, library
from .workspace import Workspace, cache_of

MOST_HEAD_DIM = 256


def fits(block: DecoderBlock) -> bool:
    """Whether the block is composed as the library computes it; formats are another question."""
    attention, mlp = block.attention, block.mlp
    if type(attention) is not Attention or type(mlp) is not GatedMLP or mlp.activation != "silu":
        return False
    if [len(_linears(part)) for part in (attention.qkv, mlp.gate_up)] != [3, 2]:
        return False
    leaves = (*_linears(attention.qkv), attention.output, *_linears(mlp.gate_up), mlp.down)
    norms = (block.attention_norm, block.mlp_norm)
    typed = all(type(leaf) is Linear for leaf in leaves) and all(type(norm) is Norm for norm in norms)
    return typed and type(attention.attend) is Attend and _sized(block)


def fits_attend(attend: Attend) -> bool:
    """Whether the library has room for the heads."""
    return attend.head_dim <= MOST_HEAD_DIM and attend.heads % attend.kv_heads == 0


def bind_block(block: DecoderBlock, handles: Handles, workspace: Workspace) -> Callable[..., torch.Tensor]:
    """``(hidden [n, hidden], batch, state) → hidden``, which is a new tensor."""
    struct, lib = _struct(block, handles), library()
    address, rotary = ctypes.addressof(struct), block.attention.rotary
    needed = lru_cache(partial(lib.tc_block_scratch, address))
    cache = lru_cache(maxsize=1)(cache_of)  # of its layer: the same state step after step

    def run(hidden: torch.Tensor, batch: Batch, state: PagedState, keep: Any = (struct, handles)) -> torch.Tensor:
        hidden = dense(hidden)
        n = hidden.shape[0]
        out = torch.empty_like(hidden)
        structs = address, workspace.step(batch, rotary), ctypes.addressof(cache(state))
        room = workspace.at_least(needed(n))
        tensors = hidden.data_ptr(), out.data_ptr(), n, room, torch.get_num_threads()
        check(lib.tc_block_forward(*structs, *tensors))
        return out

    return run


def _linears(part: Any) -> tuple[Any, ...]:
    return part.linears if type(part) is Linears else ()


def _sized(block: DecoderBlock) -> bool:
    attend, rotary = block.attention.attend, block.attention.rotary
    hidden, inner = block.mlp.down.weight.shape
    queries, keys = attend.heads * attend.head_dim, attend.kv_heads * attend.head_dim
    q, k, v = (linear.weight.shape for linear in block.attention.qkv.linears)
    return (
        (q, k, v) == ((queries, hidden), (keys, hidden), (keys, hidden))
        and block.attention.output.weight.shape == (hidden, queries)
        and all(linear.weight.shape == (inner, hidden) for linear in block.mlp.gate_up.linears)
        and fits_attend(attend)
        and block.attention.head_dim == attend.head_dim
        and (rotary is None or (rotary.dim <= attend.head_dim and rotary.dim % 2 == 0))
    )


def _struct(block: DecoderBlock, handles: Handles) -> Block:
    attention, attend = block.attention, block.attention.attend

    def matrix(linear: Linear) -> Any:
        return handles[linear.weight.key].struct(handles[linear.bias.key] if linear.bias else None)

    linears = (*attention.qkv.linears, attention.output, *block.mlp.gate_up.linears, block.mlp.down)
    return Block(
        *map(matrix, linears),
        *(handles[norm.weight.key].values.data_ptr() for norm in (block.attention_norm, block.mlp_norm)),
        *(block.attention_norm.eps, block.mlp_norm.eps, attend.scale),
        *(attend.heads, attend.kv_heads, attend.head_dim, attention.rotary.dim if attention.rotary else 0, 0),
    )
