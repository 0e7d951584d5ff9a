"""The kernel, held to the contract."""

from tcplug_cpu_kernels.contract import *  # noqa: F403
