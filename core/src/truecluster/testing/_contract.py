"""What every suite has: the installed offer that it is about."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import attrs
import pytest

from truecluster._registry import Registry

from ._missing import missing


@attrs.frozen
class Installed:
    """An offer of an installed plugin: its spec, and the class that its target names (None for a recipe)."""

    spec: Any
    target: Any


class Contract:
    """Name ``offer`` in a subclass, or give the fixtures of the suite where what is tested isn't installed."""

    KIND: ClassVar[str]
    """The kind of plugin that the suite is about, as ``tc plugin list`` writes it."""
    offer: ClassVar[str] = ""
    """The name of the installed offer under test."""

    @pytest.fixture
    def installed(self) -> Installed:
        """The offer under test."""
        if not self.offer:
            raise missing(self, "offer", f"the name of an installed {self.KIND}")
        spec = registry().spec(self.KIND, self.offer)
        return Installed(spec, None if self.KIND == "quantizer" else registry().resolve(self.KIND, self.offer))


@cache
def registry() -> Registry:
    """What is installed, and selected by the environment; a plugin that fails is named where an offer is missing."""
    return Registry.installed()
