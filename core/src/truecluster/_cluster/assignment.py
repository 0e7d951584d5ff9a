"""What a node is told of the stage that it is to host."""

from __future__ import annotations

from truecluster._plan import RunPlan, StateSize
from truecluster._weights.catalog import Unit
from truecluster._wire import messages as wire

from .delivery import Delivery


def assignment(delivery: Delivery, plan: RunPlan, size: StateSize, dials: tuple[str, ...]) -> wire.Assignment:
    """The stage of ``delivery``, which dials those of its edges."""
    resources, stage = delivery.resources, delivery.remote.plan
    bound, settings = resources.model.bound, resources.settings
    inbound, outbound = plan.edge(stage.inbound), plan.edge(stage.outbound)
    return wire.Assignment(
        run=plan.run,
        model_name=resources.model.name,
        architecture=bound.architecture_name,
        config=bound.raw,
        span=stage.span,
        stage=stage.index,
        stages=stage.count,
        units=tuple(map(_wire_unit, delivery.units)),
        compute_dtype=stage.dtypes.compute,
        residual_dtype=stage.dtypes.residual,
        threads=stage.threads,
        pages=size.pages,
        sequences=size.sequences,
        edge_transport=inbound.transport,
        inbound_edge=inbound.id,
        outbound_edge=outbound.id,
        dials=dials,
        inbound_dtype=inbound.dtype,
        outbound_dtype=outbound.dtype,
        device=delivery.remote.session.device,
        step_timeout_s=settings.step_timeout,
        stop_timeout_s=settings.stop_timeout,
        max_step_tokens=settings.max_tokens,
    )


def _wire_unit(unit: Unit) -> wire.Unit:
    slot = unit.slot
    return wire.Unit(
        key=slot.key, role=slot.role, shape=slot.shape, format=unit.format, hash=unit.digest, nbytes=unit.nbytes
    )
