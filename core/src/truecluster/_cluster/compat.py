"""Whether a node executes the same code as the coordinator expects: compared by version, only for what it would run."""

from __future__ import annotations

from collections.abc import Mapping

from truecluster._registry import Registry
from truecluster._wire.messages import Hello
from truecluster.api import NodeError

from .model import ClusterModel


def needed_by(model: ClusterModel, registry: Registry, transport: str) -> dict[str, str]:
    """``kind/name`` → version, of the architecture, the formats and the edge transport of this cluster."""
    families = {model.catalog.format(slot).id.partition(".")[0] for slot in model.bound.slots.values()}
    kinds = [("architecture", model.bound.architecture_name), ("transport", transport)]
    kinds += [("format", family) for family in sorted(families)]
    return {f"{kind}/{name}": registry.compat(kind, name) for kind, name in kinds}


def check_hello(hello: Hello, needed: Mapping[str, str]) -> None:
    """Raise `NodeError` with the difference."""
    differences = [
        f"{what} is {hello.compat.get(what, 'missing')} there, {version} here"
        for what, version in needed.items()
        if hello.compat.get(what) != version
    ]
    if differences:
        raise NodeError(f"{'; '.join(differences)}: install the same versions on every machine")
