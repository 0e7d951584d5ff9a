"""The contract of devices. Where a backend detects no device on this machine, what needs one is skipped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DType, Dtypes, NodeError, OutOfMemory

from ._contract import Contract, Installed
from .rules import Broken, ranging, refusal, require

DTYPES = (
    *(torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool),
)
LARGE = (1500, 1000)
"""A shape of some MB: a device may copy those another way than small ones."""
LEAST = 1 << 28
"""Bytes that any device has; a smaller number is in another unit."""
TOO_MANY = 1 << 48
"""Elements that no memory holds."""
shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)


class DeviceContract(Contract):
    """Name ``offer``."""

    KIND = "device"

    @pytest.fixture
    def backend(self, installed: Installed) -> DeviceBackend:
        """The backend under test."""
        made: DeviceBackend = installed.target()
        return made

    @pytest.fixture
    def info(self, backend: DeviceBackend) -> DeviceInfo:
        """Its first device."""
        there = backend.detect()
        if not there:
            pytest.skip(f"{type(backend).__name__} detects no device on this machine")
        return there[0]

    @pytest.fixture
    def device(self, backend: DeviceBackend, info: DeviceInfo) -> Iterator[DeviceContext]:
        """That one, opened on one thread."""
        with host_threads(torch.get_num_threads()):
            yield backend.open(info.id, threads=1)

    def test_detected_devices_are_told_apart_and_described(self, backend: DeviceBackend) -> None:
        """Each device has an id of its own, ``KIND`` or ``KIND:INDEX``, and a name."""
        there = backend.detect()
        require(len({d.id for d in there}) == len(there), "ids that differ", there)
        for device in there:
            require(device.id.partition(":")[0] == device.kind, "an id that begins with the kind", device)
            require(bool(device.name.strip()), "a name for people", device)

    def test_detecting_twice_finds_the_same(self, backend: DeviceBackend) -> None:
        """`detect` gives the same ids in the same order while nothing is plugged in or out."""
        first, second = ([device.id for device in backend.detect()] for _ in range(2))
        require(first == second, f"{first} again", second)

    def test_what_keeps_a_device_away_is_said(self, backend: DeviceBackend) -> None:
        """`absent` is None, or says to the user what keeps a device from being used; it raises nothing."""
        reason = backend.absent()
        holds = reason is None or (isinstance(reason, str) and bool(reason.strip()))
        require(holds, "None, or what keeps a device away", repr(reason))

    @pytest.mark.parametrize("id", ["no-such-device", "", "cpu:4711", "cuda:4711"])
    def test_an_unknown_device_is_refused_naming_those_there_are(self, backend: DeviceBackend, id: str) -> None:
        """`open` raises `NodeError` for an id that isn't there; its message names those that are."""
        with refusal(NodeError, "", id=id) as refused:
            backend.open(id)
        unnamed = [device.id for device in backend.detect() if device.id not in str(refused[0])]
        require(not unnamed, f"a message that names {', '.join(unnamed)}", refused[0], id=id)

    def test_a_context_is_the_device_that_was_opened(self, info: DeviceInfo, device: DeviceContext) -> None:
        """The context's ``id`` and ``kind`` are those that `detect` told."""
        require((device.id, device.kind) == (info.id, info.kind), f"{info.id}, {info.kind}", (device.id, device.kind))

    def test_memory_is_total_and_free_in_bytes(self, info: DeviceInfo, device: DeviceContext) -> None:
        """`memory` is (total, free), bytes both, ``None`` where it isn't known; so are those that `detect` tells."""
        for total, free in (device.memory(), (info.total, info.free)):
            require(total is None or total >= LEAST, f"a total in bytes, at least {LEAST}", total)
            require(free is None or free >= 0, "free bytes, at least 0", free)
            require(None in (total, free) or free <= total, f"free bytes, at most the total {total}", free)  # type: ignore[operator]

    @ranging
    @given(shape=shapes, dtype=st.sampled_from(DTYPES))
    @example(shape=LARGE, dtype=torch.float32)
    @example(shape=LARGE, dtype=torch.bfloat16)
    def test_a_tensor_comes_back_to_the_bit(
        self, device: DeviceContext, shape: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        """What was uploaded and downloaded has its dtype, its shape and its bits: NaNs, -0.0 and denormals too."""
        sent = random_bits(shape, dtype)
        with device.scope():
            back = device.download(device.upload(sent))
        require((back.dtype, back.shape) == (dtype, sent.shape), f"{dtype} of {shape}", f"{back.dtype} of {back.shape}")
        require(bits(back) == bits(sent), "the same bits", back, shape=shape, dtype=dtype, sent=sent)

    @ranging
    @given(rows=st.integers(1, 5), columns=st.integers(2, 5), step=st.integers(1, 2), there=st.booleans())
    def test_a_view_comes_back_too(
        self, device: DeviceContext, rows: int, columns: int, step: int, there: bool
    ) -> None:
        """A tensor may be a view with any offset and strides, such as a column, on the host and on the device."""
        matrix = torch.arange(1.0, 1 + rows * columns).view(rows, columns)
        wanted = matrix[:, 1::step].tolist()
        with device.scope():
            uploaded = device.upload(matrix)[:, 1::step] if there else device.upload(matrix[:, 1::step])
            back = device.download(uploaded).tolist()
        place = "the device" if there else "the host"
        require(back == wanted, str(wanted), back, view=f"[:, 1::{step}] of {rows} rows of {columns} on {place}")

    def test_uploads_lie_on_the_device_and_downloads_on_the_host(self, info: DeviceInfo, device: DeviceContext) -> None:
        """torch says so: ``upload(t).device`` is of the type that the id names, ``download(t).device`` is ``cpu``."""
        with device.scope():
            there = device.upload(torch.ones(3))
            back = device.download(there)
        found, kind = (there.device.type, back.device.type), torch.device(info.id).type
        require(found == (kind, "cpu"), f"{kind}, then cpu", found)

    def test_the_host_copies_nothing(self, info: DeviceInfo, device: DeviceContext) -> None:
        """Where the device is the host itself, `upload` and `download` return the very tensor that they are given."""
        if not is_host(info):
            pytest.skip(f"{info.id} isn't the host")
        sent = torch.arange(100.0)
        with device.scope():
            there = device.upload(sent)
            require(there is sent, "the same tensor from upload", "another one")
            require(device.download(there) is there, "the same tensor from download", "another one")

    def test_an_upload_is_a_copy_of_its_own(self, info: DeviceInfo, device: DeviceContext) -> None:
        """Elsewhere the host's tensor may be overwritten as soon as `upload` returns."""
        if is_host(info):
            pytest.skip(f"{info.id} is the host")
        sent = torch.arange(5.0)
        with device.scope():
            there = device.upload(sent)
            sent.zero_()
            found = device.download(there).tolist()
        require(found == [0, 1, 2, 3, 4], "what was there before", found)

    def test_a_download_is_a_copy_of_its_own(self, info: DeviceInfo, device: DeviceContext) -> None:
        """Elsewhere what was downloaded stays as it is when the device overwrites its tensor."""
        if is_host(info):
            pytest.skip(f"{info.id} is the host")
        with device.scope():
            there = device.upload(torch.arange(5.0))
            back = device.download(there)
            there.zero_()
            device.synchronize()
        require(back.tolist() == [0, 1, 2, 3, 4], "what was there before", back.tolist())

    def test_a_download_waits_for_what_is_queued(self, device: DeviceContext) -> None:
        """`download` returns when all that its tensor depends on is computed and copied."""
        size = 128
        turn = torch.eye(size).roll(1, 0)  # its powers are exact, and take a while on any device
        with device.scope():
            x = matrix = device.upload(turn)
            for _ in range(size - 1):
                x = x @ matrix
            wrong = int((device.download(x) != torch.eye(size)).sum())
        require(wrong == 0, f"the {size}th power of a permutation, the identity", f"{wrong} wrong elements")

    def test_a_scope_computes_without_gradients(self, device: DeviceContext) -> None:
        """Inside `scope` torch records nothing for gradients, and outside as before."""
        weight = torch.ones(3, requires_grad=True)
        with device.scope():
            inside = (weight * 2).requires_grad
        found = (inside, (weight * 2).requires_grad)
        require(found == (False, True), "no gradients inside, gradients after", found)

    def test_a_scope_computes_on_its_threads(self, backend: DeviceBackend, info: DeviceInfo) -> None:
        """Inside the `scope` of a device opened with ``threads=1`` torch has one thread of the host."""
        with host_threads(2), backend.open(info.id, threads=1).scope():
            require(torch.get_num_threads() == 1, "1 thread", torch.get_num_threads())

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_scope_leaves_the_threads_as_they_were(
        self, backend: DeviceBackend, info: DeviceInfo, fails: bool
    ) -> None:
        """After `scope` the number of torch's threads is what it was before, after an error too."""
        with host_threads(2):
            with suppress(KeyError), backend.open(info.id, threads=1).scope():
                if fails:
                    raise KeyError("of the test")
            require(torch.get_num_threads() == 2, "2 threads as before", torch.get_num_threads(), fails=fails)

    def test_an_error_leaves_a_scope_as_it_is(self, device: DeviceContext) -> None:
        """What is raised inside `scope` and has nothing to do with memory comes out unchanged."""
        for sent in (KeyError("as it is"), RuntimeError("as it is")):
            with refusal(type(sent), "as it is", sent=sent) as caught, device.scope():
                throw(sent)
            require(caught[0] is sent, "the same error", caught[0], sent=sent)

    def test_running_out_of_memory_is_told_with_numbers(self, device: DeviceContext) -> None:
        """Where memory runs out inside `scope`, it raises `OutOfMemory` with the numbers that there are."""
        with refusal(OutOfMemory, r"\d", elements=TOO_MANY), device.scope():
            device.upload(torch.zeros(1).expand(TOO_MANY)).clone(memory_format=torch.contiguous_format)

    def test_fp32_is_native_and_every_dtype_has_an_answer(self, device: DeviceContext) -> None:
        """`native` is a bool for each `DType`, and true for fp32, which every device computes."""
        found = {dtype.value: device.native(dtype) for dtype in DType}
        require(found["fp32"] is True and {type(answer) for answer in found.values()} == {bool}, "bools", found)

    @pytest.mark.parametrize("compute", [DType.FP32, DType.FP16, DType.BF16])
    def test_a_residual_holds_every_value_of_the_computation(self, device: DeviceContext, compute: DType) -> None:
        """`residual` is the dtype that linears compute in, or fp32."""
        residual = device.residual(compute)
        try:
            Dtypes(compute, residual)
        except ValueError as error:
            raise Broken(f"a dtype that holds every value of {compute.value}", residual, {}) from error

    def test_a_turn_ends_and_can_be_taken_again(self, device: DeviceContext) -> None:
        """When a thread has left `turn`, another one gets it."""
        taken = threading.Event()

        def take() -> None:
            with device.turn():
                taken.set()

        with device.turn():
            pass
        other = threading.Thread(target=take, daemon=True)
        other.start()
        other.join(10)
        require(taken.is_set(), "the turn within 10 s", "it is still held")

    def test_synchronizing_an_idle_device_returns(self, device: DeviceContext) -> None:
        """`synchronize` returns ``None`` at once where nothing is queued."""
        try:
            device.synchronize()
        except Exception as error:
            raise Broken("None", error, {}) from error


def throw(error: Exception) -> None:
    """Raise it."""
    raise error


def is_host(info: DeviceInfo) -> bool:
    """Whether the device is where torch's tensors are anyway."""
    return torch.device(info.id).type == "cpu"


def random_bits(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of random bytes; of booleans, random ones."""
    random = torch.Generator().manual_seed(1)
    if dtype is torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=random).bool()
    size = torch.Size(shape).numel() * dtype.itemsize
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=random).view(dtype).view(tuple(shape))


def bits(tensor: torch.Tensor) -> bytes:
    """A tensor's elements, in order, as bytes."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@contextmanager
def host_threads(count: int) -> Iterator[None]:
    """torch has ``count`` threads meanwhile, and what it had before afterwards, whatever happens inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
