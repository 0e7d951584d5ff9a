"""Numbers of a run. Imports nothing heavy."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RunSettings:
    """Tokens per step, and seconds: for a node to load, for a step to be answered, for a stage to end."""

    max_tokens: int = 256
    ready_timeout: float = 600.0
    step_timeout: float = 60.0
    stop_timeout: float = 10.0
