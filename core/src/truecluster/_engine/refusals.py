"""What a run can never serve, however long one waits."""

from __future__ import annotations

from truecluster._pipeline.run import Capacity
from truecluster.nn import PAGE

from .sequences import Sequence


def refusal(sequence: Sequence, capacity: Capacity) -> str | None:
    """Why a run of that ``capacity`` could never serve the request, for the user."""
    if sequence.length > capacity.context:
        return (
            f"prompt and answer have {sequence.length} tokens, a sequence may have {capacity.context}; "
            "ask for fewer tokens"
        )
    if sequence.pages_needed > capacity.pages:
        return (
            f"prompt and answer need {sequence.pages_needed * PAGE} tokens of cache, the run has "
            f"{capacity.pages * PAGE}; ask for fewer tokens"
        )
    return None
