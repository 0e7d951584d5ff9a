"""What a run will look like: its stages, its edges, the state that fits, and the check of what a planner answered.

No torch, no sockets.
"""

from .budget import PROCESS, Share, kind_of, process_bytes, shares
from .build import build_plan
from .fit import Fitted, fit
from .model import EdgeKind, EdgePlan, Route, RunPlan, StagePlan
from .room import Measured, Room, StateSize, wanted_size
from .validate import validate

__all__ = [
    "PROCESS",
    "EdgeKind",
    "EdgePlan",
    "Fitted",
    "Measured",
    "Room",
    "Route",
    "RunPlan",
    "Share",
    "StagePlan",
    "StateSize",
    "build_plan",
    "fit",
    "kind_of",
    "process_bytes",
    "shares",
    "validate",
    "wanted_size",
]
