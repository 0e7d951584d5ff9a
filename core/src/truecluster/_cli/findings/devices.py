"""Devices by each backend, and the kernels that this machine can run."""

from __future__ import annotations

from collections.abc import Iterator

from truecluster._registry import Registry
from truecluster._registry.kernels import usable
from truecluster._registry.targets import load_target
from truecluster.api import DeviceBackend, DeviceInfo

from .finding import FAIL, WARN, Finding, broken, gigabytes, split_remedy

LITTLE = 10**9
"""Bytes of free memory below which hardly any model has room."""


def look(registry: Registry) -> Iterator[Finding]:
    """Detects devices and opens none."""
    found = 0
    for offer in registry.offers("device"):
        try:
            backend: DeviceBackend = load_target(offer)()
            there, reason = list(backend.detect()), backend.absent()
        except (Exception, SystemExit) as error:
            yield broken(offer, error)
            continue
        found += len(there)
        yield from map(_device, there)
        if reason is not None:
            wrong, remedy = split_remedy(reason)
            yield Finding(offer.spec.name, wrong, WARN, remedy)
        elif not there:
            yield Finding(offer.spec.name, "none on this machine")
    if not found:
        yield Finding("any", "no device to compute on", FAIL, "install one's plugin: pip install tcplug-devices")


def _device(info: DeviceInfo) -> Finding:
    text = f"{info.name}: {gigabytes(info.free)} of {gigabytes(info.total)} free"
    if info.free is not None and info.free < LITTLE:
        return Finding(info.id, text, WARN, "end other programs, or let more nodes share the model")
    return Finding(info.id, text)


def look_at_kernels(registry: Registry) -> Iterator[Finding]:
    """Why those that can't be used can't; without any, the reference computes, slowly."""
    offers = {offer.spec.name: offer for offer in registry.offers("kernel")}
    kernels = usable(offers.values(), load_target)
    failed = {offer.spec.name: error for offer, error in kernels.failures}
    for name, _, kernel in kernels.available:
        yield Finding(name, f"usable{f': {details}' if (details := kernel.details()) else ''}")
    for name, reason in kernels.unavailable.items():
        if name in failed:
            yield broken(offers[name], failed[name])
        else:
            wrong, remedy = split_remedy(reason)
            yield Finding(name, wrong, WARN, remedy)
    text = "always there; computes what no other kernel takes, slowly"
    if kernels.available:
        yield Finding("reference", text)
    else:
        yield Finding("reference", text, WARN, "install tcplug-cpu-kernels where there is a C compiler")
