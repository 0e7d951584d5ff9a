"""``tc plugin new``: a complete package of a plugin, from templates that are data of this one."""

from .kinds import KINDS
from .new import Made, create

__all__ = ["KINDS", "Made", "create"]
