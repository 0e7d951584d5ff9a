"""What the kernel takes, and what it says where it can't go on."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest
import torch
from tcplug_cpu_kernels import native
from tcplug_cpu_kernels.kernel import CpuKernel
from tcplug_cpu_kernels.plugin import truecluster_kernels

from truecluster.api import (
    CheckpointError,
    Description,
    DType,
    Dtypes,
    Packed,
    Paged,
    PluginError,
    Role,
    Rotary,
    Slot,
    StateError,
    Target,
)
from truecluster.nn import (
    Attend,
    Attention,
    DecoderBlock,
    Embedding,
    GatedMLP,
    LanguageHead,
    Linear,
    Linears,
    Norm,
    Row,
    SequenceState,
)

built = pytest.mark.skipif(native.path() is None, reason="the library wasn't built: there is no C compiler")
FP32 = Dtypes(DType.FP32, DType.FP32)


class Somewhere:
    def __init__(self, kind):
        self.kind = kind


def linear(key, out, width):
    return Linear(Slot(key, Role.LINEAR, (out, width)))


def block(**changes):
    norm = Norm(Slot("norm", Role.NORM, (32,)), 1e-6)
    qkv = Linears((linear("q", 32, 32), linear("k", 16, 32), linear("v", 16, 32)))
    attention = Attention(qkv, linear("o", 32, 32), Attend(4, 2, 8, 0.5), 8, Rotary(8, 1e4))
    mlp = GatedMLP(Linears((linear("gate", 64, 32), linear("up", 64, 32))), linear("down", 32, 64))
    return DecoderBlock(norm, attrs.evolve(attention, **changes), norm, mlp)


def target_of(description, format, kind="cpu", dtypes=FP32):
    return Target(formats={slot.key: format for slot in description.slots()}, device=Somewhere(kind), dtypes=dtypes)


def test_the_offer_leads_to_the_kernel():
    (spec,) = truecluster_kernels()
    assert (spec.name, spec.rank, spec.target) == ("cpu", 10, "tcplug_cpu_kernels.kernel:CpuKernel")


def test_the_declaration_imports_no_torch():
    check = "import sys, tcplug_cpu_kernels.plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(
    "description", [block(), linear("w", 8, 8), Attend(4, 2, 8, 0.5)], ids=lambda d: type(d).__name__
)
def test_it_computes_in_fp32_on_the_host_only(format_of, description):
    format = format_of("fp16")
    half = Dtypes(DType.BF16, DType.FP32)
    assert CpuKernel().accepts(description, target_of(description, format))
    assert not CpuKernel().accepts(description, target_of(description, format, kind="cuda"))
    assert not CpuKernel().accepts(description, target_of(description, format, dtypes=half))


@pytest.mark.parametrize(
    "other",
    [
        {"attend": Attend(4, 3, 8, 0.5)},
        {"attend": Attend(4, 2, 16, 0.5)},
        {"head_dim": 16},
        {"rotary": Rotary(16, 1e4)},
        {"output": linear("o", 32, 64)},
        {"output": Embedding(Slot("o", Role.LINEAR, (32, 32)))},
        {"qkv": Linears((linear("q", 32, 32), linear("k", 16, 32)))},
    ],
    ids=str,
)
def test_a_block_of_another_shape_is_left_to_its_children(format_of, other):
    description = block(**other)
    assert not CpuKernel().accepts(description, target_of(description, format_of("fp16")))


def test_a_block_of_another_kind_is_left_to_its_children(format_of):
    class Other(DecoderBlock):
        pass

    plain = block()
    other = Other(plain.attention_norm, plain.attention, plain.mlp_norm, plain.mlp)
    activated = attrs.evolve(plain, mlp=attrs.evolve(plain.mlp, activation="gelu"))
    head = LanguageHead(plain.mlp_norm, linear("head", 8, 32))
    for description in (other, activated, head, plain.mlp):
        assert not CpuKernel().accepts(description, target_of(description, format_of("fp16")))


def test_heads_beyond_the_library_are_left_to_others(format_of):
    for wide in (Attend(4, 2, 257, 0.5), Attend(5, 2, 64, 0.5)):
        assert not CpuKernel().accepts(wide, target_of(wide, format_of("fp16")))


@built
def test_a_tied_matrix_has_one_handle(format_of):
    slot = Slot("embed.tokens", Role.HEAD, (12, 32))
    kernel, format = CpuKernel(), format_of("int8")
    description = Linear(slot)
    target = target_of(description, format)
    handles = {slot.key: kernel.prepare(slot, format.pack(torch.randn(12, 32)), target)}
    embed = kernel.bind(Embedding(slot), handles, target)
    rows, all_rows = (embed(torch.tensor(ids, dtype=torch.int32)) for ids in ([7, 0], range(12)))
    logits = kernel.bind(description, handles, target)(rows)
    torch.testing.assert_close(logits, rows @ all_rows.T, rtol=1e-4, atol=1e-3)


@built
@pytest.mark.parametrize("id", [-1, 12, 2**31 - 1])
def test_a_token_that_is_not_there_is_refused(format_of, id):
    slot = Slot("embed.tokens", Role.EMBEDDING, (12, 32))
    kernel, format, target = CpuKernel(), format_of("int8"), target_of(Embedding(slot), format_of("int8"))
    handles = {slot.key: kernel.prepare(slot, format.pack(torch.randn(12, 32)), target)}
    embed = kernel.bind(Embedding(slot), handles, target)
    with pytest.raises(StateError, match="names tokens"):
        embed(torch.tensor([3, id], dtype=torch.int32))


def test_too_few_bytes_are_refused_naming_the_slot(format_of):
    slot, format = Slot("block.3.q", Role.LINEAR, (8, 32)), format_of("int4.g32.asym")
    packed = format.pack(torch.randn(8, 32))
    short = Packed(packed.format, packed.shape, packed.data[:-1])
    with pytest.raises(CheckpointError, match=r"block\.3\.q"):
        CpuKernel().prepare(slot, short, target_of(Linear(slot), format))


@built
@pytest.mark.parametrize(("rows", "pages"), [([0, 1, 0, 0], [9]), ([0, 1, 0, 0], [-1]), ([0, 2, 0, 0], [0])])
@pytest.mark.parametrize("whole", [True, False])
def test_a_step_outside_the_cache_is_refused(format_of, rows, pages, whole):
    kernel, format = CpuKernel(), format_of("fp32")
    rotary = Rotary(8, 1e4)
    states = SequenceState({0: Paged({"k": (2, 8), "v": (2, 8)})}, [rotary], pages=4, sequences=1)
    states.open(0)
    states.extend(0, 1)
    batch = states.begin([Row(0, 0, 1)])
    wrong = attrs.evolve(
        batch, rows=torch.tensor([rows], dtype=torch.int32), pages=torch.tensor([pages], dtype=torch.int32)
    )
    description: Description = block() if whole else block().attention.attend
    target = target_of(description, format)
    weights = {slot.key: format.pack(torch.randn(slot.shape)) for slot in description.slots()}
    handles = {slot.key: kernel.prepare(slot, weights[slot.key], target) for slot in description.slots()}
    run = kernel.bind(description, handles, target)
    inputs = [torch.randn(1, 32)] if whole else [torch.randn(1, 4, 8), torch.randn(1, 2, 8), torch.randn(1, 2, 8)]
    assert run(*inputs, batch, states.layers[0]).isfinite().all()
    before = states.layers[0].arrays["k"].clone()
    with pytest.raises(StateError, match="outside"):
        run(*inputs, wrong, states.layers[0])
    assert torch.equal(states.layers[0].arrays["k"], before)


@built
def test_no_rows_give_no_rows(format_of):
    kernel, format = CpuKernel(), format_of("int8")
    for description in (linear("w", 8, 32), Norm(Slot("n", Role.NORM, (32,)), 1e-6)):
        target = Target(
            formats={slot.key: format if len(slot.shape) > 1 else format_of("fp32") for slot in description.slots()},
            device=Somewhere("cpu"),
            dtypes=FP32,
        )
        (slot,) = description.slots()
        packed = target.formats[slot.key].pack(torch.ones(slot.shape))
        run = kernel.bind(description, {slot.key: kernel.prepare(slot, packed, target)}, target)
        assert run(torch.empty(0, 32)).shape == (0, 8 if isinstance(description, Linear) else 32)


def test_without_the_library_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "path", lambda: native_path(tmp_path))
    native.library.cache_clear()
    try:
        reason = CpuKernel().unavailable()
        assert reason is not None
        assert "C compiler" in reason
        assert "pip install" in reason
        with pytest.raises(PluginError, match="C compiler"):
            native.library()
    finally:
        native.library.cache_clear()


def test_a_library_that_does_not_load_is_named(tmp_path, monkeypatch):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(native, "path", lambda: broken)
    native.library.cache_clear()
    try:
        assert "doesn't load" in str(CpuKernel().unavailable())
    finally:
        native.library.cache_clear()


native_path = native.path


@built
def test_it_shares_torchs_threads():
    """A second pool of threads would compete with the first for the cores."""
    maps = "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    code = f"from tcplug_cpu_kernels.native import library; library(); {maps}"
    if sys.platform != "linux" or not native.library().tc_has_threads():
        pytest.skip("no OpenMP of GNU here")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "1"
