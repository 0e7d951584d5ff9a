"""Offers the Mistral architecture."""

from truecluster.api import ArchitectureSpec, hookimpl


@hookimpl
def truecluster_architectures():  # type: ignore[no-untyped-def]
    yield ArchitectureSpec(
        name="mistral",
        target="tcplug_mistral.model:Mistral",
        summary="Mistral 7B, with its sliding window.",
        model_types=("mistral",),
    )
