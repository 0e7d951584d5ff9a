"""Offers folders in the layout of the Hugging Face hub, hub ids, and what else weights lie in there."""

from truecluster.api import CheckpointSpec, FormatSpec, hookimpl


@hookimpl
def truecluster_checkpoints():  # type: ignore[no-untyped-def]
    yield CheckpointSpec(
        name="hf",
        target="tcplug_hf.source:HfSource",
        summary="Hugging Face hub ids and folders with safetensors.",
        forms=("hf:", "FOLDER", "ORG/NAME"),
        markers=("config.json",),
    )


@hookimpl
def truecluster_quantizers():  # type: ignore[no-untyped-def]
    yield FormatSpec(
        name="safetensors", target="tcplug_hf.formats:SafetensorsFormat", summary="fp64 and fp8 elements, read only."
    )
