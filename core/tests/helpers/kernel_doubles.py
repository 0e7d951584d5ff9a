"""Kernels for the suite of kernels: right ones, and ones that are wrong in one way."""

from __future__ import annotations

import ctypes
from weakref import WeakKeyDictionary

import attrs
import torch

from truecluster.api import Description, DType, Role
from truecluster.nn import (
    PAGE,
    Batch,
    DecoderBlock,
    Embedding,
    LanguageHead,
    Linear,
    Lowering,
    Norm,
    ReferenceKernel,
)


class Right(ReferenceKernel):
    """A right one, in fp32; the doubles change what is accepted, prepared, computed or claimed."""

    def accepts(self, description, target):
        kinds = (Linear, Norm, Embedding, LanguageHead, DecoderBlock)
        return type(description) in kinds and known(description) and self.reads(target)

    def reads(self, target):
        return self.on(target.device) and self.in_dtypes(target.dtypes) and self.in_formats(target.formats.values())

    def on(self, device):
        return device.kind == "cpu"

    def in_dtypes(self, dtypes):
        return dtypes.compute is DType.FP32

    def in_formats(self, formats):
        return all(format.id == "plain" for format in formats)

    def bind(self, description, handles, target):
        if isinstance(description, DecoderBlock):
            return self.block(whole(description, handles, target))
        if isinstance(description, LanguageHead):
            return whole(description, handles, target)
        run = super().bind(description, handles, target)
        if isinstance(description, Linear):
            return self.linear(run, description, [handles[slot.key] for slot in description.slots()], target)
        return (
            self.norm(run, description, handles) if isinstance(description, Norm) else self.embedding(run, description)
        )

    def linear(self, run, description, handles, target):
        return run

    def norm(self, run, description, handles):
        return run

    def embedding(self, run, description):
        return run

    def block(self, run):
        return run


def known(description):
    """Whether everything in it is what ``nn`` has."""
    children = [
        child for value in description.children().values() for child in (value if isinstance(value, tuple) else [value])
    ]
    ours = type(description).__module__ == Linear.__module__
    return ours and getattr(description, "activation", "silu") == "silu" and all(map(known, children))


def whole(description, handles, target):
    """The reference's callable of a composite."""
    return Lowering(target).bind(description, {("reference", key): handle for key, handle in handles.items()})


class Rowwise(Right):
    """A right one that is invariant: row by row, token by token, so that nothing depends on what else is there."""

    invariant = True

    def linear(self, run, description, handles, target):
        return self.rowwise(run)

    def norm(self, run, description, handles):
        return self.rowwise(run)

    def rowwise(self, run):
        return lambda x: torch.cat([run(row.clone()) for row in x.split(1)]) if len(x) else run(x)

    def bind(self, description, handles, target):
        run = super().bind(description, handles, target)
        return self.rowwise(run) if isinstance(description, LanguageHead) else run

    def block(self, run):
        def block(hidden, batch, state):
            rows = enumerate(batch.rows.tolist())
            one_by_one = [single(batch, r, first + i) for r, (first, count, _, _) in rows for i in range(count)]
            found = [run(hidden[i : i + 1].clone(), one, state) for i, one in one_by_one]
            return torch.cat(found) if found else run(hidden, batch, state)

        return block


def single(batch, row, token):
    """The token's number, and the step that holds nothing but it."""
    slot = int(batch.rows[row, 3])
    tables = {key: (cos[token : token + 1], sin[token : token + 1]) for key, (cos, sin) in batch.tables.items()}
    at = torch.tensor([[0, 1, int(batch.positions[token]), slot]], dtype=torch.int32)
    return token, Batch(at, batch.pages[row : row + 1], batch.positions[token : token + 1], tables)


class Halves(Right):
    """A right one, in any dtypes."""

    def in_dtypes(self, dtypes):
        return True


@attrs.frozen
class Twice(Description):
    """What its linear gives, twice. No description of ``nn``."""

    linear: Linear

    def forward(self, x):
        return 2 * self.linear(x)


class Doubling(Right):
    """A right one that takes `Twice` and nothing else."""

    factor = 2

    def accepts(self, description, target):
        return type(description) is Twice and self.reads(target)

    def bind(self, description, handles, target):
        run = super().bind(description.linear, handles, target)
        return lambda x: self.factor * run(x)


class Wrong(Doubling):
    """Gives a little more."""

    factor = 2.001


class Mute(Right):
    """Can't run, and doesn't say why."""

    def unavailable(self):
        return " "


class Silent(Right):
    """Says nothing, not even an empty text."""

    def details(self):
        return None


class Idle(Right):
    """Takes nothing."""

    def accepts(self, description, target):
        return False


class Grasping(Right):
    """Takes formats that it can't know."""

    def in_formats(self, formats):
        return True


class Careless(Right):
    """Takes a subclass of a linear for a linear."""

    def accepts(self, description, target):
        return super().accepts(description, target) or (isinstance(description, Linear) and self.reads(target))


class Anywhere(Right):
    """Takes any device for its own."""

    def on(self, device):
        return True


class Moody(Right):
    """Takes no large matrix once it has bound something."""

    bound = False

    def accepts(self, description, target):
        large = isinstance(description, Linear) and description.weight.shape[0] > 100
        return super().accepts(description, target) and not (self.bound and large)

    def bind(self, description, handles, target):
        self.bound = True
        return super().bind(description, handles, target)


class Widening(Halves):
    """Gives rows of an embedding in fp32, whatever the residual is."""

    def embedding(self, run, description):
        return lambda ids: run(ids).float()


class Shifted(Right):
    """Scales one output as if it were another, unless it has a bias or is the head's."""

    def linear(self, run, description, handles, target):
        if description.bias or description.weight.role is Role.HEAD:
            return run
        factor = torch.ones(description.weight.shape[0])
        factor[-1] = 1.01
        return lambda x: run(x) * factor


class Biasless(Right):
    """Leaves out the bias in the last of several rows."""

    def linear(self, run, description, handles, target):
        if description.bias is None:
            return run
        bias = handles[1].whole()
        return lambda x: run(x) - bias * (torch.arange(len(x)) == max(1, len(x) - 1))[:, None]


class HalfHead(Halves):
    """Rounds what the head's matrix gives to what linears compute in."""

    def linear(self, run, description, handles, target):
        half = target.dtypes.compute is DType.BF16 and description.weight.role is Role.HEAD
        return (lambda x: run(x).bfloat16().float()) if half else run


class Epsless(Right):
    """Adds no eps."""

    def norm(self, run, description, handles):
        weight = handles[description.weight.key].whole()
        return lambda x: x / x.square().mean(-1, keepdim=True).sqrt() * weight


class Clamped(Right):
    """Gives the row before for the last."""

    def embedding(self, run, description):
        return lambda ids: run(ids.clamp(max=description.weight.shape[0] - 2))


class HalfRotary(Right):
    """Rotates with tables in half precision."""

    def block(self, run):
        def block(hidden, batch, state):
            tables = {key: tuple(table.half().float() for table in pair) for key, pair in batch.tables.items()}
            return run(hidden, attrs.evolve(batch, tables=tables), state)

        return block


def rounded(x, largest):
    """``x`` on a grid that ``largest`` decides."""
    step = largest / 2**20
    return (x / step).round() * step


class SharedScale(Right):
    """Rounds activations with one scale for the whole step."""

    def linear(self, run, description, handles, target):
        return lambda x: run(rounded(x, x.nan_to_num().abs().max())) if len(x) else run(x)


class Remembering(Right):
    """Rounds activations with a scale that only grows."""

    def linear(self, run, description, handles, target):
        seen = [torch.zeros(())]

        def remembering(x):
            largest = torch.cat([x.nan_to_num().abs(), seen[-1].expand(len(x), 1)], 1).amax(1, keepdim=True)
            if len(x):
                seen.append(largest.max())
            return run(rounded(x, largest))

        return remembering


class Hiding(Right):
    """Turns what is not a number into zero."""

    def linear(self, run, description, handles, target):
        return lambda x: run(x).nan_to_num()


class Boasting(Rowwise):
    """Has other bits in a step of more than two rows."""

    def linear(self, run, description, handles, target):
        row = self.rowwise(run)
        return lambda x: row(x) * (1 + 1e-6 * (len(x) > 2))


class Threaded(Rowwise):
    """Has other bits on more than one thread."""

    def linear(self, run, description, handles, target):
        row = self.rowwise(run)
        return lambda x: row(x) * (1 + 1e-6 * (torch.get_num_threads() > 1))


class Restless(Rowwise):
    """Has other bits in a step that goes on with a sequence."""

    def block(self, run):
        block = super().block(run)
        return lambda hidden, batch, state: block(hidden, batch, state) * (1 + 1e-6 * bool(batch.rows[:, 2].any()))


class Reusing(Right):
    """Gives all results in the same memory."""

    def linear(self, run, description, handles, target):
        room = torch.empty(1000, description.weight.shape[0])
        return lambda x: room[: len(x)].copy_(run(x))


class Overwriting(Right):
    """Uses the memory of its input."""

    def linear(self, run, description, handles, target):
        def overwriting(x):
            y = run(x)
            return y if not x.is_contiguous() else (x.zero_(), y)[1]

        return overwriting


class Emptyless(Right):
    """Can't do without rows."""

    def linear(self, run, description, handles, target):
        return lambda x: torch.stack([run(row[None])[0] for row in x])


class Strided(Right):
    """Reads rows as if each began where the one before ends."""

    def linear(self, run, description, handles, target):
        return lambda x: run(x.as_strided(x.shape, (x.shape[1], 1)))


class Forgetful(Right):
    """Forgets the token before a step."""

    def block(self, run):
        def block(hidden, batch, state):
            for (_, _, position, _), pages in zip(batch.rows.tolist(), batch.pages.tolist(), strict=True):
                if position:
                    for array in state.arrays.values():
                        array[pages[(position - 1) // PAGE], (position - 1) % PAGE] = 0
            return run(hidden, batch, state)

        return block


class Mixing(Right):
    """Reads every sequence through the pages of the first."""

    def block(self, run):
        return lambda hidden, batch, state: run(
            hidden, attrs.evolve(batch, pages=batch.pages[:1].expand_as(batch.pages)), state
        )


class Stale(Right):
    """Keeps what was written at a position first, whatever is written there later."""

    def block(self, run):
        longest = WeakKeyDictionary()

        def block(hidden, batch, state):
            lengths = longest.setdefault(state, {})
            old = [
                (array, page, offset, array[page, offset].clone())
                for (_, count, position, slot), pages in zip(batch.rows.tolist(), batch.pages.tolist(), strict=True)
                for at in range(position, min(position + count, lengths.get(slot, 0)))
                for array, page, offset in ((a, pages[at // PAGE], at % PAGE) for a in state.arrays.values())
            ]
            found = run(hidden, batch, state)
            for array, page, offset, value in old:
                array[page, offset] = value
            for _, count, position, slot in batch.rows.tolist():
                lengths[slot] = max(lengths.get(slot, 0), position + count)
            return found

        return block


class Unmasked(Right):
    """Sees every cached token where only the latest may be seen."""

    def block(self, run):
        class Open:
            def __init__(self, state):
                self.arrays, self.sliding = state.arrays, None

        return lambda hidden, batch, state: run(hidden, batch, Open(state))


class Lying(Right):
    """Plans with half of what it holds."""

    def resident_bytes(self, format, shape):
        return super().resident_bytes(format, shape) // 2


def copied(packed):
    """The same in memory of its own."""
    return attrs.evolve(packed, data=packed.data.clone())


class Scribbling(Right):
    """Clears the packed bytes once it has copied them."""

    def prepare(self, slot, packed, target):
        handle = super().prepare(slot, copied(packed), target)
        packed.data.zero_()
        return handle


class Aligned(Right):
    """Reads bytes that don't begin at a multiple of four from another place."""

    def prepare(self, slot, packed, target):
        off = packed.data.data_ptr() % 4
        return super().prepare(slot, attrs.evolve(packed, data=packed.data.roll(off)) if off else packed, target)


class Dangling(Right):
    """Keeps the address of the packed bytes, and doesn't hold them."""

    def __init__(self):
        self.addresses = WeakKeyDictionary()

    def prepare(self, slot, packed, target):
        handle = super().prepare(slot, copied(packed), target)
        self.addresses[handle] = packed.data.data_ptr()
        return handle

    def linear(self, run, description, handles, target):
        def reading(x):
            for handle in handles:
                held = handle.packed.data
                there = ctypes.string_at(self.addresses[handle], len(held))
                held.copy_(torch.frombuffer(bytearray(there), dtype=torch.uint8))
            return run(x)

        return reading


class Caching(Right):
    """Takes tensors whose slots have the same key for the same."""

    def __init__(self):
        self.handles = {}

    def prepare(self, slot, packed, target):
        key = (slot.key, packed.format, packed.shape)
        if key not in self.handles:
            self.handles[key] = super().prepare(slot, copied(packed), target)
        return self.handles[key]


class Consuming(Right):
    """Binds a handle once."""

    def __init__(self):
        self.bound = set()

    def bind(self, description, handles, target):
        if not self.bound.isdisjoint(handles.values()):
            raise RuntimeError("this handle is used up")
        self.bound.update(handles.values())
        return super().bind(description, handles, target)
