"""Loads the packages that lie at the root before pytest takes their folders for namespaces of the same names."""

import tcplug_quant  # noqa: F401
import tcplug_qwen2  # noqa: F401
import tcplug_transport_tcp  # noqa: F401
