"""What a kernel takes of the catalogue, and how each description is called: rows in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import pytest
import torch

from truecluster.api import Description, DeviceContext, DType, Dtypes, Kernel, Role, Target, WeightFormat
from truecluster.nn import Attend, Attention, DecoderBlock, GatedMLP, LanguageHead, Linear, Linears, Norm, torch_dtype

from ._host import Plain
from ._kernel_stage import Stage
from ._lowered import Bound, bound, holds, lowered

HALVES = (DType.BF16, DType.FP16)
DTYPES = (
    Dtypes(DType.FP32, DType.FP32),
    *(Dtypes(compute, residual) for compute in HALVES for residual in (compute, DType.FP32)),
)
ROUNDING = {DType.FP32: 0.0, DType.FP16: 2e-3, DType.BF16: 1.6e-2}
"""Relative error of a row that is computed in a dtype: about four roundings."""


def _split(attend: Attend, run: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    sizes = [count * attend.head_dim for count in (attend.heads, attend.kv_heads, attend.kv_heads)]

    def call(x: torch.Tensor, *state: Any) -> torch.Tensor:
        q, k, v = (
            part.reshape(len(x), part.shape[1] // attend.head_dim, attend.head_dim)
            for part in x.split_with_sizes(sizes, dim=1)
        )
        return run(q, k, v, *state).flatten(1)  # type: ignore[no-any-return]

    return call


def _joined(linears: Linears, run: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    return lambda x: torch.cat(run(x), dim=1)


ADAPTED: Mapping[type, Callable[[Any, Callable[..., Any]], Callable[..., torch.Tensor]]] = {
    Attend: _split,
    Linears: _joined,
}
"""For what isn't called with one tensor of rows, or returns more than one."""
WIDTH: Mapping[type, Callable[[Any], int]] = {
    Linear: lambda linear: linear.weight.shape[1],
    Norm: lambda norm: norm.weight.shape[0],
    Linears: lambda linears: linears.linears[0].weight.shape[1],
    Attend: lambda attend: (attend.heads + 2 * attend.kv_heads) * attend.head_dim,
    LanguageHead: lambda head: head.norm.weight.shape[0],
    Attention: lambda attention: attention.output.weight.shape[0],
    GatedMLP: lambda mlp: mlp.down.weight.shape[0],
    DecoderBlock: lambda block: block.mlp.down.weight.shape[0],
}
"""Elements of a row that is given."""
OUT_OF_RESIDUAL = (Norm, LanguageHead, DecoderBlock)
"""What reads the residual."""


@attrs.frozen(eq=False)
class Case:
    """A description that the kernel takes, in a format, for a device and dtypes."""

    kernel: Kernel
    description: Any
    format: WeightFormat
    device: DeviceContext
    dtypes: Dtypes

    @property
    def target(self) -> Target:
        """Matrices in the format, vectors in plain fp32."""
        vectors = Plain()
        formats = {slot.key: self.format if len(slot.shape) > 1 else vectors for slot in self.description.slots()}
        return Target(formats=formats, device=self.device, dtypes=self.dtypes)

    @property
    def width(self) -> int:
        """Elements of a row that is given."""
        return WIDTH[type(self.description)](self.description)

    @property
    def stateful(self) -> bool:
        """Whether it reads and writes the state of its sequences."""
        return isinstance(self.description, (Attend, Attention, DecoderBlock))

    @property
    def result(self) -> torch.dtype:
        """What it returns, as ``nn`` promises."""
        if isinstance(self.description, LanguageHead):
            return torch.float32
        if isinstance(self.description, Linear) and self.description.weight.role is Role.HEAD:
            return torch.float32
        return torch_dtype(self.dtypes.residual if isinstance(self.description, DecoderBlock) else self.dtypes.compute)

    def bind(self, seed: int = 0) -> Bound:
        """The kernel's callable; ``seed`` chooses the weights."""
        return bound(self.kernel, self.description, self.target, seed)

    def reference(self) -> Bound:
        """The reference's callable."""
        return lowered([], self.description, self.target)

    def rows(self, count: int, seed: int = 0, size: float = 1.0) -> torch.Tensor:
        """Normally distributed rows ``[count, width]`` on the host, in the dtype that the description reads."""
        reads = self.dtypes.residual if isinstance(self.description, OUT_OF_RESIDUAL) else self.dtypes.compute
        generator = torch.Generator().manual_seed(1000 * seed + count)
        return (size * torch.randn(count, self.width, generator=generator)).to(torch_dtype(reads))

    def stage(self, run: Bound, sliding: int | None = None) -> Stage:
        """The callable over new state."""
        adapt = ADAPTED.get(type(self.description))
        adapted = adapt(self.description, run) if adapt else run
        return Stage(adapted, self.description, self.device, torch_dtype(self.dtypes.compute), sliding)

    def upload(self, value: Any) -> Any:
        """A tensor on the device, anything else as it is."""
        return self.device.upload(value) if isinstance(value, torch.Tensor) else value

    def call(self, run: Bound, x: torch.Tensor) -> torch.Tensor:
        """``x`` on the host, passed as it is, through the callable, over new state where there is any."""
        return self.device.download(self.stage(run).first(self.device.upload(x)))

    def __str__(self) -> str:
        slots = self.description.slots()
        matrices = [slot for slot in slots if len(slot.shape) > 1]
        shapes = " ".join(str(list(slot.shape)) for slot in matrices or slots)
        dtypes = f"compute {self.dtypes.compute.value}, residual {self.dtypes.residual.value}"
        what = self.description if isinstance(self.description, Attend) else type(self.description).__name__
        return f"{what} {shapes} in {self.format.id}; {dtypes}"

    __repr__ = __str__


@attrs.frozen(eq=False)
class Taken:
    """What a kernel takes."""

    kernel: Kernel
    formats: Sequence[WeightFormat]
    device: DeviceContext
    _found: dict[tuple[Description, ...], list[Case]] = attrs.field(factory=dict, init=False)

    def of(self, descriptions: Iterable[Description]) -> list[Case]:
        """The cases of ``descriptions`` that the kernel accepts."""
        offered = [
            Case(self.kernel, description, format, self.device, dtypes)
            for description in descriptions
            for dtypes in DTYPES
            for format in self._holding(description)
        ]
        return [case for case in offered if self.kernel.accepts(case.description, case.target)]

    def some(self, descriptions: tuple[Description, ...]) -> list[Case]:
        """The same; skips the test where there are none."""
        if descriptions not in self._found:
            self._found[descriptions] = self.of(descriptions)
        found = self._found[descriptions]
        if not found:
            kinds = ", ".join(dict.fromkeys(type(description).__name__ for description in descriptions))
            pytest.skip(f"{type(self.kernel).__name__} leaves to others: {kinds}")
        return found

    def _holding(self, description: Description) -> list[WeightFormat]:
        matrices = any(len(slot.shape) > 1 for slot in description.slots())
        return [format for format in self.formats if holds(format, description)] if matrices else [Plain()]
