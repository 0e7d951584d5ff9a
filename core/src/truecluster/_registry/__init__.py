"""Plugins: discovered, loaded, offered by name. Knows no more of an offer than its name and its base class."""

from .discovery import Found
from .failures import PluginFailure
from .kernels import Kernels
from .kinds import KINDS
from .observers import SILENT, Events, Observer
from .offers import Offer
from .registry import Registry
from .selection import Selection

__all__ = [
    "KINDS",
    "SILENT",
    "Events",
    "Found",
    "Kernels",
    "Observer",
    "Offer",
    "PluginFailure",
    "Registry",
    "Selection",
]
