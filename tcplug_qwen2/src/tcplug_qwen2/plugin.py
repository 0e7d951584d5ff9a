"""Offers the Qwen2 architecture."""

from truecluster.api import ArchitectureSpec, hookimpl


@hookimpl
def truecluster_architectures():  # type: ignore[no-untyped-def]
    yield ArchitectureSpec(
        name="qwen2",
        target="tcplug_qwen2.model:Qwen2",
        summary="Qwen2 and Qwen2.5; hosts llama.",
        model_types=("qwen2",),
        hosts=("llama",),
    )
