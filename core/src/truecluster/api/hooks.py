"""The marker of hook implementations."""

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("truecluster")
"""Marks a function of a plugin's module as an implementation of the hook of the same name.

Seven hooks take no arguments and yield specs: ``truecluster_architectures``, ``truecluster_quantizers`` (recipes and
formats), ``truecluster_transports``, ``truecluster_planners``, ``truecluster_devices``, ``truecluster_checkpoints``,
``truecluster_kernels``.

``truecluster_event(event)`` observes a coordinator: it is called with each `Event`, in order, on a thread of its own.
For an observer that can't keep up, events are left out; what one raises is logged once and touches nothing else.
"""
