"""What a run will look like: its stages, its edges, and the check of what a planner answered. No torch, no sockets."""

from .build import build_plan
from .model import EdgeKind, EdgePlan, RunPlan, StagePlan
from .validate import validate

__all__ = ["EdgeKind", "EdgePlan", "RunPlan", "StagePlan", "build_plan", "validate"]
