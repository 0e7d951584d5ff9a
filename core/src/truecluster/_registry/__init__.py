"""Plugins: discovered, loaded, offered by name. Knows no more of an offer than its name and its base class."""

from .discovery import Found
from .failures import PluginFailure
from .kinds import KINDS
from .offers import Offer
from .registry import Kernels, Registry

__all__ = ["KINDS", "Found", "Kernels", "Offer", "PluginFailure", "Registry"]
