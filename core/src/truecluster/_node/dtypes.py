"""Whether the dtypes of an assignment are ones that this node can honour."""

from __future__ import annotations

from truecluster._pipeline.dtypes import offered
from truecluster._wire.messages import Assignment
from truecluster.api import DeviceContext, DType, Dtypes, NodeError


def assigned_dtypes(assignment: Assignment, device: DeviceContext) -> Dtypes:
    """Raises `NodeError` where the device doesn't offer the pair, or an edge carries what its stage doesn't take."""
    compute, residual, there = assignment.compute_dtype, assignment.residual_dtype, offered(device)
    found = next((dtypes for dtypes in there if (dtypes.compute, dtypes.residual) == (compute, residual)), None)
    if found is None:
        known = ", ".join(f"{dtypes.compute.value} with residual {dtypes.residual.value}" for dtypes in there)
        raise NodeError(f"{device.id} has no {compute.value} with residual {residual.value}; it has {known}")
    _check_edge(assignment, assignment.inbound_dtype, tokens=assignment.span.embed)
    _check_edge(assignment, assignment.outbound_dtype, tokens=assignment.span.head)
    return found


def _check_edge(assignment: Assignment, dtype: DType, *, tokens: bool) -> None:
    if not (dtype is DType.INT32 if tokens else dtype.is_float):
        raise NodeError(f"an edge in {dtype.value} doesn't fit stage {assignment.span}")
