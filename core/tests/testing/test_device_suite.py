"""The suite of devices catches devices that are wrong."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import pytest
import torch

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DType, NodeError
from truecluster.testing.device import DeviceContract


class Context(DeviceContext):
    """A right one."""

    id = kind = "cpu"

    def __init__(self, threads):
        self.threads = threads

    def memory(self):
        return None, None

    @contextmanager
    def scope(self):
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            with torch.inference_mode():
                yield
        finally:
            torch.set_num_threads(before)

    def upload(self, tensor):
        return tensor

    download = upload

    def synchronize(self):
        pass

    def native(self, dtype):
        return dtype is DType.FP32


class Backend(DeviceBackend):
    made = Context

    def detect(self):
        return [DeviceInfo(id="cpu", kind="cpu", name="a processor")]

    def open(self, id, threads=None):
        if id != "cpu":
            raise NodeError(f"no {id}, only cpu")
        return self.made(threads)


class Trusting(Backend):
    """Opens whatever is named."""

    def open(self, id, threads=None):
        return Context(threads)


class Copying(Backend):
    """Says that it is the host, and copies."""

    class made(Context):
        def upload(self, tensor):
            return tensor.clone()


class Learning(Backend):
    """Keeps gradients."""

    class made(Context):
        def scope(self):
            return nullcontext()


class Rounding(Backend):
    """Brings numbers back in half precision."""

    class made(Context):
        def download(self, tensor):
            return tensor.half()


class _Suite(DeviceContract):
    host = True
    backend_type: type[DeviceBackend] = Backend

    @pytest.fixture
    def backend(self):
        return self.backend_type()


class SuiteOfBackend(_Suite):
    pass


class SuiteOfTrusting(_Suite):
    backend_type = Trusting


class SuiteOfCopying(_Suite):
    backend_type = Copying


class SuiteOfLearning(_Suite):
    backend_type = Learning


class SuiteOfRounding(_Suite):
    backend_type = Rounding


def test_a_right_device_passes(failures):
    assert failures(SuiteOfBackend) == set()


@pytest.mark.parametrize(
    ("suite", "caught"),
    [
        (SuiteOfTrusting, "test_an_unknown_device_is_refused_naming_those_there_are"),
        (SuiteOfCopying, "test_the_host_copies_nothing_and_others_keep_their_copy"),
        (SuiteOfLearning, "test_a_scope_computes_without_gradients_on_its_threads"),
        (SuiteOfRounding, "test_a_tensor_comes_back_as_it_went"),
    ],
)
def test_a_wrong_device_is_caught(failures, suite, caught):
    assert caught in failures(suite)
