"""What `tc plugin check speed` runs."""

from __future__ import annotations

from truecluster.testing.planner import PlannerContract


class TestSpeed(PlannerContract):
    offer = "speed"
