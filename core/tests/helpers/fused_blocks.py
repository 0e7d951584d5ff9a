"""A plugin of one kernel that runs a whole decoder block its own way: q, k and v in one matrix, grouped by key head.

It uses nothing of the reference, and no architecture has a line for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from truecluster.api import DType, Kernel, KernelSpec, hookimpl
from truecluster.nn import DecoderBlock, Linear, Norm


@hookimpl
def truecluster_kernels():
    yield KernelSpec(name="fused", target="fused_blocks:FusedBlocks", rank=50)


class FusedBlocks(Kernel):
    """Accepts a decoder block of unbiased linears, in fp32 on the host."""

    bound = 0

    def accepts(self, description: Any, target: Any) -> bool:
        plain = isinstance(description, DecoderBlock) and not [s for s in description.slots() if s.key.endswith("bias")]
        return plain and target.device.kind == "cpu" and target.dtypes.compute is DType.FP32

    def prepare(self, slot: Any, packed: Any, target: Any) -> torch.Tensor:
        return target.formats[slot.key].unpack(packed).t().contiguous()  # [in, out]

    def bind(self, description: DecoderBlock, handles: Any, target: Any) -> Any:
        FusedBlocks.bound += 1
        return _Block(description, handles)

    def resident_bytes(self, format: Any, shape: Any) -> int:
        return format.wire_bytes(shape)


class _Block:
    def __init__(self, block: DecoderBlock, handles: Any) -> None:
        def matrix(linear: Linear) -> torch.Tensor:
            return handles[linear.weight.key]

        def norm(norm: Norm) -> tuple[torch.Tensor, float]:
            return handles[norm.weight.key], norm.eps

        attend = block.attention.attend
        self.rotary, self.scale = block.attention.rotary, attend.scale
        self.heads, self.groups, self.dim = attend.heads // attend.kv_heads, attend.kv_heads, attend.head_dim
        q, k, v = (matrix(linear).unflatten(1, (self.groups, -1)) for linear in block.attention.qkv.linears)
        self.qkv = torch.cat([q, k, v], 2).flatten(1)  # [hidden, groups * (heads + 2) * dim]
        self.output = matrix(block.attention.output)
        self.gate_up = torch.cat([matrix(linear) for linear in block.mlp.gate_up.linears], 1)
        self.down = matrix(block.mlp.down)
        self.norms = norm(block.attention_norm), norm(block.mlp_norm)

    def __call__(self, hidden: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        hidden = hidden + self._attention(self._norm(hidden, 0), batch, state) @ self.output
        gate, up = (self._norm(hidden, 1) @ self.gate_up).chunk(2, 1)
        return hidden + (functional.silu(gate) * up) @ self.down

    def _norm(self, x: torch.Tensor, which: int) -> torch.Tensor:
        weight, eps = self.norms[which]
        return functional.rms_norm(x, (x.shape[1],), weight, eps)

    def _attention(self, x: torch.Tensor, batch: Any, state: Any) -> torch.Tensor:
        qkv = (x @ self.qkv).view(len(x), self.groups, self.heads + 2, self.dim)
        cos, sin = (torch.cat([table, table], 1)[:, None, None] for table in batch.tables[self.rotary])
        first, second = qkv.chunk(2, 3)
        turned = qkv * cos + torch.cat([-second, first], 3) * sin
        q, k, v = turned[:, :, : self.heads], turned[:, :, self.heads], qkv[:, :, self.heads + 1]
        mixed = [self._mix(q, k, v, row, pages, state) for row, pages in zip(batch.rows, batch.pages, strict=True)]
        return torch.cat(mixed)

    def _mix(self, q: Any, k: Any, v: Any, row: Any, pages: Any, state: Any) -> torch.Tensor:
        start, count, position, _ = row.tolist()
        where, rows = torch.arange(position + count), slice(start, start + count)
        page, offset = pages[where // 32].long(), where % 32
        for name, new in (("k", k), ("v", v)):
            state.arrays[name][page[position:], offset[position:]] = new[rows]
        keys, values = (state.arrays[name][page, offset].transpose(0, 1)[None] for name in "kv")
        seen = where[None, :] <= where[position:, None]
        queries = q[rows].flatten(1, 2).transpose(0, 1)[None]
        y = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=seen, scale=self.scale, enable_gqa=True
        )
        return y[0].transpose(0, 1).flatten(1)
