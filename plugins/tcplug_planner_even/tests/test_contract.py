"""The even planner keeps the contract of planners."""

from __future__ import annotations

from truecluster.testing.planner import PlannerContract


class TestEven(PlannerContract):
    offer = "even"
