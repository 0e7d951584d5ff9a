"""The contract of devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from truecluster.api import DeviceBackend, DeviceContext, DType, Dtypes, NodeError

from ._missing import missing

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8)


class DeviceContract:
    """Give ``backend``. Where it detects no device, what needs one is skipped."""

    host = False
    """Whether the device is the host itself, so that uploads and downloads are the same tensors."""

    @pytest.fixture
    def backend(self) -> DeviceBackend:
        """The backend under test."""
        raise missing(self, "the fixture 'backend'", "a DeviceBackend")

    @pytest.fixture
    def device(self, backend: DeviceBackend) -> Iterator[DeviceContext]:
        """Its first device, opened on one thread."""
        there = backend.detect()
        if not there:
            pytest.skip(f"{type(backend).__name__} detects no device on this machine")
        before = torch.get_num_threads()
        yield backend.open(there[0].id, threads=1)
        assert torch.get_num_threads() == before, "a scope that has ended leaves its number of threads behind"

    def test_detected_devices_are_told_apart_and_described(self, backend: DeviceBackend) -> None:
        there = backend.detect()
        assert len({device.id for device in there}) == len(there)
        for device in there:
            assert device.id.partition(":")[0] == device.kind
            assert device.name
            assert_plausible(device.total, device.free)

    def test_detecting_twice_finds_the_same(self, backend: DeviceBackend) -> None:
        assert [d.id for d in backend.detect()] == [d.id for d in backend.detect()]

    @pytest.mark.parametrize("id", ["no-such-device", "", "cpu:17", "cuda:99"])
    def test_an_unknown_device_is_refused_naming_those_there_are(self, backend: DeviceBackend, id: str) -> None:
        with pytest.raises(NodeError) as caught:
            backend.open(id)
        assert all(device.id in str(caught.value) for device in backend.detect())

    def test_a_context_knows_its_name_and_memory(self, backend: DeviceBackend, device: DeviceContext) -> None:
        assert (device.id, device.kind) == (backend.detect()[0].id, backend.detect()[0].kind)
        assert_plausible(*device.memory())

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(3, 5), (0,), (), (1500, 1000)])
    def test_a_tensor_comes_back_as_it_went(
        self, device: DeviceContext, dtype: torch.dtype, shape: tuple[int, ...]
    ) -> None:
        sent = torch.randint(0, 100, shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        with device.scope():
            there = device.upload(sent)
            back = device.download(there)
        assert there.device.type == torch.device(device.id).type
        assert (back.device.type, back.dtype, back.shape) == ("cpu", dtype, sent.shape)
        assert torch.equal(back, sent)

    def test_a_column_comes_back_too(self, device: DeviceContext) -> None:
        column = torch.arange(12.0).view(3, 4)[:, 1]
        with device.scope():
            assert device.download(device.upload(column)).tolist() == [1.0, 5.0, 9.0]

    def test_the_host_copies_nothing_and_others_keep_their_copy(self, device: DeviceContext) -> None:
        sent = torch.arange(100.0)
        with device.scope():
            there = device.upload(sent)
            if self.host:
                assert there is sent
                assert device.download(there) is sent
                return
            sent.zero_()
            assert device.download(there).tolist() == list(range(100))

    def test_a_download_waits_for_what_is_queued(self, device: DeviceContext) -> None:
        """Multiplying by a permutation again and again is exact, and takes a while on any device."""
        size = 128
        turn = torch.eye(size).roll(1, 0)
        with device.scope():
            x = matrix = device.upload(turn)
            for _ in range(size - 1):
                x = x @ matrix
            found = device.download(x)
        assert torch.equal(found, torch.eye(size))

    def test_a_scope_computes_without_gradients_on_its_threads(self, device: DeviceContext) -> None:
        weight = torch.ones(3, requires_grad=True)
        with device.scope():
            assert not (weight * 2).requires_grad
            assert torch.get_num_threads() == 1
        assert (weight * 2).requires_grad

    def test_an_error_leaves_a_scope_as_it_is(self, device: DeviceContext) -> None:
        with pytest.raises(KeyError), device.scope():
            raise KeyError("as it is")
        assert torch.is_grad_enabled()

    def test_fp32_is_native_and_every_dtype_has_an_answer(self, device: DeviceContext) -> None:
        assert device.native(DType.FP32) is True
        assert {type(device.native(dtype)) for dtype in DType} == {bool}

    def test_a_residual_holds_every_value_of_the_computation(self, device: DeviceContext) -> None:
        for compute in (DType.FP32, DType.FP16, DType.BF16):
            assert Dtypes(compute, device.residual(compute)).compute is compute

    def test_a_turn_ends_and_can_be_taken_again(self, device: DeviceContext) -> None:
        for _ in range(2):
            with device.scope(), device.turn():
                assert device.download(device.upload(torch.ones(1))).tolist() == [1.0]

    def test_synchronizing_an_idle_device_returns(self, device: DeviceContext) -> None:
        device.synchronize()


def assert_plausible(total: int | None, free: int | None) -> None:
    """Bytes, where they are known."""
    assert total is None or total > 1 << 20
    assert free is None or free >= 0
    assert total is None or free is None or free <= total
