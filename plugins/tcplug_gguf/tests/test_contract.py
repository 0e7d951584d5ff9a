"""The GGUF plugin keeps the contracts of checkpoints and of formats."""

from __future__ import annotations

from tcplug_gguf.contract import *  # noqa: F403
from tcplug_gguf.format_contract import *  # noqa: F403
