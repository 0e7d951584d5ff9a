"""Offers folders in the layout of the Hugging Face hub, and hub ids."""

from truecluster.api import CheckpointSpec, hookimpl


@hookimpl
def truecluster_checkpoints():  # type: ignore[no-untyped-def]
    yield CheckpointSpec(
        name="hf",
        target="tcplug_hf.source:HfSource",
        summary="Hugging Face hub ids and folders with safetensors.",
        forms=("hf:", "FOLDER", "ORG/NAME"),
        markers=("config.json",),
    )
