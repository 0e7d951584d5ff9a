"""The suite of devices catches devices that are wrong, each by one method."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager, suppress

import pytest
import torch
from doubles import Double

from truecluster.api import DeviceBackend, DeviceContext, DeviceInfo, DeviceSpec, DType, NodeError, OutOfMemory
from truecluster.testing._contract import Installed
from truecluster.testing.device import DeviceContract

GB = 10**9


class Host(DeviceContext):
    """A right one: the processor."""

    id = kind = "cpu"
    gradients = torch.inference_mode

    def __init__(self, threads):
        self.threads = threads

    def memory(self):
        return 8 * GB, 4 * GB

    @contextmanager
    def scope(self):
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            with self.gradients():
                yield
        except RuntimeError as error:
            self.explain(error)
            raise
        finally:
            torch.set_num_threads(before)

    def explain(self, error):
        if "DefaultCPUAllocator" in str(error):
            raise OutOfMemory("all of 8 GB are taken") from error

    def upload(self, tensor):
        return tensor

    download = upload

    def synchronize(self):
        pass

    def native(self, dtype):
        return dtype is DType.FP32


class Remote(torch.Tensor):
    """A tensor that says it is elsewhere."""

    device = property(lambda self: torch.device("hpu:0"))


class Far(Host):
    """A right one: a device with memory of its own. torch knows the type, and no machine has one."""

    id, kind = "hpu:0", "hpu"

    def upload(self, tensor):
        return self.moved(tensor).as_subclass(Remote)

    def download(self, tensor):
        return self.moved(tensor.as_subclass(torch.Tensor))

    def moved(self, tensor):
        return tensor.clone(memory_format=torch.contiguous_format)


class Backend(DeviceBackend):
    made = Host

    def detect(self):
        return [DeviceInfo(id=self.made.id, kind=Host.kind, name="a processor", total=8 * GB, free=4 * GB)]

    def open(self, id, threads=None):
        if id not in [device.id for device in self.detect()]:
            raise NodeError(f"no {id}, only {', '.join(device.id for device in self.detect())}")
        return self.made(threads)


class FarBackend(Backend):
    made = Far

    def detect(self):
        return [DeviceInfo(id="hpu:0", kind="hpu", name="an accelerator", total=8 * GB)]


class Twins(Backend):
    """Has two devices of one id."""

    def detect(self):
        return [*super().detect()] * 2


class Sulky(Backend):
    """Has a reason, and doesn't say which."""

    def absent(self):
        return " "


class Turning(FarBackend):
    """Finds its devices in another order each time."""

    order = itertools.cycle((0, 1))

    def detect(self):
        first = DeviceInfo(id="hpu:0", kind="hpu", name="an accelerator", total=8 * GB)
        second = DeviceInfo(id="hpu:1", kind="hpu", name="an accelerator", total=8 * GB)
        return [first, second] if next(self.order) else [second, first]

    def open(self, id, threads=None):
        made = super().open(id, threads)
        made.id = id
        return made


class Trusting(Backend):
    """Opens whatever is named."""

    def open(self, id, threads=None):
        return Host(threads)


class Misnamed(Host):
    """Calls itself otherwise than its backend does."""

    kind = "CPU"


class Swapped(Host):
    """Tells free bytes before total ones."""

    def memory(self):
        return super().memory()[::-1]


class Tidy(Far):
    """Turns NaNs into zeros."""

    def moved(self, tensor):
        return torch.nan_to_num(super().moved(tensor)) if tensor.is_floating_point() else super().moved(tensor)


class Flat(Far):
    """Copies the memory from a tensor's first element on, whatever its strides."""

    def moved(self, tensor):
        return super().moved(tensor.as_strided(tensor.shape, torch.empty(tensor.shape).stride()))


class Near(Far):
    """Leaves tensors on the host."""

    def upload(self, tensor):
        return self.moved(tensor)


class Copying(Host):
    """Is the host, and copies."""

    def upload(self, tensor):
        return tensor.clone()


class Lending(Far):
    """Uploads what looks into the host's tensor."""

    def upload(self, tensor):
        return tensor.as_subclass(Remote)


class Showing(Far):
    """Downloads what looks into the device's tensor."""

    def download(self, tensor):
        return tensor.as_subclass(torch.Tensor)


class Hasty(Far):
    """Doesn't wait for what is copied when the device is waited for: matrices of 128 rows."""

    def __init__(self, threads):
        super().__init__(threads)
        self.queued = []

    def download(self, tensor):
        whole = super().download(tensor)
        if tensor.shape != (128, 128):
            return whole
        late = torch.zeros_like(whole)
        self.queued.append((late, whole))
        return late

    @torch.inference_mode()
    def synchronize(self):
        for late, whole in self.queued:
            late.copy_(whole)
        self.queued.clear()


class Learning(Host):
    """Keeps gradients."""

    gradients = torch.enable_grad


class Wide(Host):
    """Takes all the threads there are."""

    def __init__(self, threads):
        super().__init__(None)


class Leaving(Host):
    """Leaves its threads behind where something fails."""

    def scope(self):
        return self.entered()

    @contextmanager
    def entered(self):
        before = torch.get_num_threads()
        try:
            with super().scope():
                yield
        except KeyError:
            torch.set_num_threads(self.threads)
            raise
        else:
            torch.set_num_threads(before)


class Hiding(Host):
    """Swallows the errors that it doesn't know."""

    @contextmanager
    def scope(self):
        with suppress(LookupError), super().scope():
            yield


class Silent(Host):
    """Lets out what torch raises where memory runs out."""

    def explain(self, error):
        pass


class Vague(Host):
    """Has no answer for some dtypes."""

    def native(self, dtype):
        return super().native(dtype) or None


class Narrow(Host):
    """Passes fp16 on where linears compute in fp32."""

    def residual(self, compute):
        return DType.FP16 if compute is DType.FP32 else compute


class Possessive(Host):
    """Keeps its turn."""

    @contextmanager
    def turn(self):
        self.lock = getattr(self, "lock", threading.Lock())
        if self.lock.acquire(timeout=0.2):
            yield


class Unfinished(Host):
    """Can't be waited for."""

    def synchronize(self):
        raise NotImplementedError


class _Suite(DeviceContract):
    backend_type: type[DeviceBackend] = Backend

    @pytest.fixture
    def installed(self):
        return Installed(DeviceSpec(name="made", target=f"{__name__}:Backend"), self.backend_type)


def suite(backend):
    made = type(f"SuiteOf{backend.__name__}", (_Suite,), {"backend_type": backend, "__module__": __name__})
    globals()[made.__name__] = made
    return made


def over(context):
    """The suite of the backend of a context."""
    backend = FarBackend if issubclass(context, Far) else Backend
    return suite(type(context.__name__, (backend,), {"made": context}))


SUITE = DeviceContract
RIGHT = [suite(Backend), suite(FarBackend)]
DOUBLES = {
    "test_detected_devices_are_told_apart_and_described": Double(suite(Twins), "ids that differ"),
    "test_detecting_twice_finds_the_same": Double(suite(Turning), r"\['hpu:1', 'hpu:0'\]"),
    "test_what_keeps_a_device_away_is_said": Double(suite(Sulky), "what keeps a device away\ncame: ' '"),
    "test_an_unknown_device_is_refused_naming_those_there_are": Double(suite(Trusting), "NodeError\ncame: nothing was"),
    "test_a_context_is_the_device_that_was_opened": Double(over(Misnamed), "expected: cpu, cpu\ncame: .*'CPU'"),
    "test_memory_is_total_and_free_in_bytes": Double(over(Swapped), "at most the total 4000000000\ncame: 8000000000"),
    "test_a_tensor_comes_back_to_the_bit": Double(over(Tidy), r"the same bits\n(.*\n)*shape: "),
    "test_a_view_comes_back_too": Double(over(Flat), r"\[\[2.0\], \[4.0\]\]\n.*\nview: \[:, 1::1\] of 2 rows of 2"),
    "test_uploads_lie_on_the_device_and_downloads_on_the_host": Double(
        over(Near), "hpu, then cpu\ncame: .*'cpu', 'cpu'"
    ),
    "test_the_host_copies_nothing": Double(over(Copying), "the same tensor from upload"),
    "test_an_upload_is_a_copy_of_its_own": Double(over(Lending), r"what was there before\ncame: \[0.0, 0.0"),
    "test_a_download_is_a_copy_of_its_own": Double(over(Showing), r"what was there before\ncame: \[0.0, 0.0"),
    "test_a_download_waits_for_what_is_queued": Double(over(Hasty), "the identity\ncame: 128 wrong elements"),
    "test_a_scope_computes_without_gradients": Double(over(Learning), r"no gradients inside.*\ncame: \(True, True\)"),
    "test_a_scope_computes_on_its_threads": Double(over(Wide), "1 thread\ncame: 2"),
    "test_a_scope_leaves_the_threads_as_they_were": Double(over(Leaving), "2 threads as before\ncame: 1\nfails: True"),
    "test_an_error_leaves_a_scope_as_it_is": Double(over(Hiding), "KeyError .*\ncame: nothing was raised"),
    "test_running_out_of_memory_is_told_with_numbers": Double(
        over(Silent), "OutOfMemory .*\ncame: .*DefaultCPUAllocator"
    ),
    "test_fp32_is_native_and_every_dtype_has_an_answer": Double(over(Vague), "bools\ncame: .*'fp16': None"),
    "test_a_residual_holds_every_value_of_the_computation": Double(over(Narrow), "every value of fp32\ncame: .*FP16"),
    "test_a_turn_ends_and_can_be_taken_again": Double(over(Possessive), "the turn within 10 s\ncame: it is still held"),
    "test_synchronizing_an_idle_device_returns": Double(over(Unfinished), "None\ncame: NotImplementedError"),
}
