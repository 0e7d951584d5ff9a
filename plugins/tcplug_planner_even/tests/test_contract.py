from __future__ import annotations

import pytest
from tcplug_planner_even.planner import EvenPlanner

from truecluster.testing.planner import PlannerContract


class TestEven(PlannerContract):
    @pytest.fixture
    def planner(self):
        return EvenPlanner()
