"""Runs the contracts of installed offers and tells how each rule fared. Imports neither pytest nor torch.

The contracts are run in a child process: a kernel that crashes or a transport that hangs ends that process and not the
report, what a plugin prints doesn't mix with it, and no pytest configuration of the caller's folder is in force.
"""

from .declaring import check_ends
from .outcomes import BROKEN, MISSING, NOTHING_RAISED, PASSED, SKIPPED, Outcome, Rule, rules_of
from .running import Collected, Ended, Event, Wanted, check

__all__ = [
    "BROKEN",
    "MISSING",
    "NOTHING_RAISED",
    "PASSED",
    "SKIPPED",
    "Collected",
    "Ended",
    "Event",
    "Outcome",
    "Rule",
    "Wanted",
    "check",
    "check_ends",
    "rules_of",
]
