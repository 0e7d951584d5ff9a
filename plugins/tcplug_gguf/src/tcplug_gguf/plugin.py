"""Offers GGUF files, their block formats, and a recipe that keeps them as they are."""

from truecluster.api import CheckpointSpec, FormatSpec, QuantizerSpec, Role, hookimpl


@hookimpl
def truecluster_checkpoints():  # type: ignore[no-untyped-def]
    yield CheckpointSpec(
        name="gguf",
        target="tcplug_gguf.checkpoint:GgufSource",
        summary="GGUF files, versions 2 and 3.",
        forms=("*.gguf",),
    )


@hookimpl
def truecluster_quantizers():  # type: ignore[no-untyped-def]
    yield FormatSpec(name="gguf", target="tcplug_gguf.formats:GgufFormat", summary="GGUF blocks, read only.")
    yield QuantizerSpec(
        name="native", roles={role.value: "keep" for role in Role}, summary="Every tensor in its checkpoint's format."
    )
