"""What ``tc doctor`` finds: each area in a module of its own, which goes on where something is broken."""

from .finding import FAIL, OK, WARN, Finding
from .survey import AREAS, Asked, survey

__all__ = ["AREAS", "FAIL", "OK", "WARN", "Asked", "Finding", "survey"]
