"""Compute in one process: what a token costs beside its linears, and how a peer does on the same machine."""

from __future__ import annotations

from collections.abc import Iterator

from tools.figures import Figure, Settings, Skip


def kernels(settings: Settings) -> Iterator[Figure]:
    """x"""
    raise Skip("later")
    yield


def llama_cpp(settings: Settings) -> Iterator[Figure]:
    """x"""
    raise Skip("later")
    yield
