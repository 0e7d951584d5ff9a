"""Offers the speed planner."""

from truecluster.api import PlannerSpec, hookimpl


@hookimpl
def truecluster_planners():  # type: ignore[no-untyped-def]
    yield PlannerSpec(
        name="speed",
        target="tcplug_planner_speed.planner:SpeedPlanner",
        summary="Shares by measured speed, within each node's memory.",
    )
