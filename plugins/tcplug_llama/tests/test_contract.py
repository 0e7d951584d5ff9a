"""Llama under the contract that it is checked with."""

from tcplug_llama.contract import *  # noqa: F403
