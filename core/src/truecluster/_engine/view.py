"""An engine for whoever looks on, as plain data: tokens, pages, seconds. See docs/cluster.md."""

from __future__ import annotations

from typing import Any

from truecluster.nn import PAGE

from .load import Load
from .tally import Tally


def engine_view(load: Load, tally: Tally, per_second: float | None) -> dict[str, Any]:
    """What there is to do, and what was done; ``per_second`` are the tokens that it generates now."""
    return {
        "requests": {"waiting": load.waiting, "running": load.running, "ended": dict(tally.ended)},
        "pages": {"held": load.pages_held, "total": load.pages, "tokens_each": PAGE},
        "tokens": {
            "prompt": tally.prompt_tokens,
            "cached": tally.cached_tokens,
            "generated": tally.generated_tokens,
            "generated_per_second": per_second,
        },
        "steps": {"sent": tally.steps, "in_flight": load.in_flight, "stalled_seconds": load.stalled_s},
    }
