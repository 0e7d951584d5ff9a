"""Formats by their layout in bytes, written from its definition, without the packages that offer them."""

from __future__ import annotations

import math

import pytest
import torch
from tcplug_cpu_kernels.contract import Ggml

from truecluster.api import Packed, PluginError, WeightFormat

FLOATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class LaidOut(WeightFormat):
    """Sections that begin at multiples of 64 bytes; a subclass says what is in them."""

    def __init__(self, id: str) -> None:
        self.id = id

    @classmethod
    def from_id(cls, id: str) -> WeightFormat:
        raise PluginError(f"made for tests, not by name: {id}")

    def wire_bytes(self, shape):
        return sections(*self.encode(torch.zeros(shape))).numel()

    def rows(self, packed, index):
        values = self.decode(packed.data.clone(), packed.shape)
        return values if values.ndim == 1 else values[index]

    def take(self, packed, index):
        raise PluginError("these tests take no rows")

    def pack(self, weight, stats=None):
        return Packed(self.id, tuple(weight.shape), sections(*self.encode(weight.float())))


class Floats(LaidOut):
    def encode(self, weight):
        return (weight.to(FLOATS[self.id]),)

    def decode(self, data, shape):
        return data.view(FLOATS[self.id]).view(shape).float()


class PerChannel(LaidOut):
    """``int8``."""

    def encode(self, weight):
        scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127
        return (weight / scale).round().to(torch.int8), scale

    def decode(self, data, shape):
        out, width = shape
        start = math.ceil(out * width / 64) * 64
        codes = data[: out * width].view(torch.int8).view(shape)
        return codes.float() * data[start : start + 4 * out].view(torch.float32)[:, None]


class Grouped(LaidOut):
    """``int4.gN.asym`` and ``int4.gN.sym``."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.group, self.symmetric = int(id.split(".")[1][1:]), id.endswith(".sym")

    def encode(self, weight):
        out, width = weight.shape
        groups, blocks = math.ceil(width / self.group), math.ceil(width / 32)
        grid = torch.nn.functional.pad(weight, (0, groups * self.group - width)).view(out, groups, self.group)
        low = -8 * grid.abs().amax(-1) / 7 if self.symmetric else grid.amin(-1).half().float()
        scale = (-low / 8 if self.symmetric else (grid.amax(-1) - low) / 15).half()
        codes = ((grid - low[..., None]) / scale.float().clamp(min=1e-6)[..., None]).round().clamp(0, 15)
        halves = codes.to(torch.uint8).view(out, -1)[:, : blocks * 32].reshape(out, blocks, 2, 16)
        packed = halves[:, :, 0] | halves[:, :, 1] << 4
        return (packed, scale) if self.symmetric else (packed, scale, low.half())

    def decode(self, data, shape):
        out, width = shape
        groups, blocks = math.ceil(width / self.group), math.ceil(width / 32)
        sizes = [out * blocks * 16, *[2 * out * groups] * (1 if self.symmetric else 2)]
        packed, *grid = split(data, sizes)
        packed = packed.view(out, blocks, 16)
        codes = torch.cat([packed & 15, packed >> 4], -1).float().view(out, -1)[:, :width]
        scale, *low = (x.view(torch.float16).float().view(out, -1) for x in grid)
        per_weight = torch.arange(width) // self.group
        return (codes - 8 if self.symmetric else codes) * scale[:, per_weight] + (low[0][:, per_weight] if low else 0)


def sections(*tensors):
    parts = [x.contiguous().flatten().view(torch.uint8) for x in tensors]
    padded = [torch.nn.functional.pad(x, (0, -x.numel() % 64)) for x in parts[:-1]]
    return torch.cat([*padded, parts[-1]])


def split(data, sizes):
    found, at = [], 0
    for size in sizes:
        found.append(data[at : at + size].clone())
        at += size + -size % 64
    return found


def made(id):
    if id.startswith("gguf."):
        return Ggml(id)
    return (Floats if id in FLOATS else PerChannel if id == "int8" else Grouped)(id)


@pytest.fixture
def format_of():
    """Format id → a format that packs."""
    return made
