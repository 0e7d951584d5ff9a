"""Offers the Llama architecture."""

from truecluster.api import ArchitectureSpec, hookimpl


@hookimpl
def truecluster_architectures():  # type: ignore[no-untyped-def]
    yield ArchitectureSpec(
        name="llama",
        target="tcplug_llama.model:Llama",
        summary="Llama 2 and 3, SmolLM2 and what else calls itself llama.",
        model_types=("llama",),
    )
