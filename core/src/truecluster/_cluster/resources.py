"""What a coordinator has for all its runs."""

from __future__ import annotations

import attrs
from anyio.from_thread import BlockingPortal

from truecluster._node.transports import Transports
from truecluster._pipeline.build import HandleCache
from truecluster._registry import Events, Registry
from truecluster.api import DeviceContext

from .model import ClusterModel
from .report import Report
from .settings import ClusterOptions, RunSettings


@attrs.frozen(kw_only=True, eq=False)
class Resources:
    """``portal`` leads to the coordinator's event loop, ``device`` is where its own stages compute."""

    registry: Registry
    model: ClusterModel
    options: ClusterOptions
    transports: Transports
    device: DeviceContext
    handles: HandleCache = attrs.field(factory=HandleCache)
    portal: BlockingPortal
    report: Report
    events: Events

    @property
    def settings(self) -> RunSettings:
        return self.options.settings
