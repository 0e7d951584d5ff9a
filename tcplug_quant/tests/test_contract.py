"""The formats and recipes keep their contracts."""

from tcplug_quant.contract import *  # noqa: F403
