"""Wheels of an index keep the contract of sources that locate."""

from tcplug_pypi.contract import *  # noqa: F403
