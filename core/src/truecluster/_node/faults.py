"""From an exception to the closed set of reasons that a node reports."""

from __future__ import annotations

from truecluster._wire.messages import FaultReason, StageFault
from truecluster.api import EdgeTimeout, StateError, TransportError

from .ends import Unreachable

REASONS = (
    (StateError, FaultReason.SEQUENCE_VIOLATION),
    (EdgeTimeout, FaultReason.TIMEOUT),
    (TransportError, FaultReason.EDGE_LOST),
)


def stage_fault(run: int, error: BaseException) -> StageFault:
    """A fault of a running stage."""
    reason = next((reason for kind, reason in REASONS if isinstance(error, kind)), FaultReason.INFERENCE_ERROR)
    return StageFault(run=run, reason=reason, message=str(error))


def load_fault(run: int, error: BaseException) -> StageFault:
    """A fault while a stage was made ready."""
    if isinstance(error, Unreachable):
        return StageFault(run=run, reason=FaultReason.EDGE_UNREACHABLE, message=str(error), edge=error.edge)
    return StageFault(run=run, reason=FaultReason.LOAD_FAILED, message=str(error) or type(error).__name__)
