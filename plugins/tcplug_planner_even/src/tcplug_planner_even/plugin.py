"""Offers the even planner."""

from truecluster.api import PlannerSpec, hookimpl


@hookimpl
def truecluster_planners():  # type: ignore[no-untyped-def]
    yield PlannerSpec(
        name="even",
        target="tcplug_planner_even.planner:EvenPlanner",
        summary="Equal shares by bytes, within each node's memory.",
    )
