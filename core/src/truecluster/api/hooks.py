"""The marker of hook implementations."""

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("truecluster")
"""Marks a function of a plugin's module as an implementation of the hook of the same name.

Hooks take no arguments and yield specs: ``truecluster_architectures``, ``truecluster_quantizers`` (recipes and
formats), ``truecluster_transports``, ``truecluster_planners``, ``truecluster_devices``, ``truecluster_checkpoints``,
``truecluster_kernels``.
"""
