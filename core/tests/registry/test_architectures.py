"""Which architecture runs a checkpoint."""

from __future__ import annotations

import pytest

from truecluster.api import PluginError

SOURCE = """
@hookimpl
def truecluster_architectures():
    yield ArchitectureSpec(name="{name}", target="nowhere:Net", model_types=({types}), hosts=({hosts}))
"""


@pytest.fixture
def offer(install):
    def write(name: str, types: str, hosts: str = "") -> None:
        source = SOURCE.format(name=name, types=types, hosts=hosts)
        install(f"tcplug-{name}", "1.0", {f"tcplug_fake_{name}.py": source})

    return write


def test_the_checkpoint_chooses_without_importing(offer, loaded):
    offer("qwen2", "'qwen2',", "'llama',")
    offer("llama", "'llama', 'smol'")
    registry = loaded()
    assert registry.architecture_for("smol").name == "llama"
    assert registry.architecture_for("llama").name == "llama"
    assert registry.architecture_for("qwen2").name == "qwen2"


def test_a_named_one_must_host_the_type_exactly(offer, loaded):
    offer("qwen2", "'qwen2',", "'llama',")
    registry = loaded()
    assert registry.architecture_for("llama", "qwen2").name == "qwen2"
    assert registry.architecture_for("qwen2", "qwen2").name == "qwen2"
    with pytest.raises(PluginError, match="'qwen2' can't run a checkpoint of type 'llama3', only qwen2, llama;"):
        registry.architecture_for("llama3", "qwen2")


def test_hosting_is_never_chosen_unasked(offer, loaded):
    offer("qwen2", "'qwen2',", "'llama',")
    with pytest.raises(PluginError) as caught:
        loaded().architecture_for("llama")
    assert str(caught.value) == (
        "no installed architecture runs model type 'llama' by itself; installed: qwen2; --arch qwen2 can host it; "
        "a plugin that has it must be installed first"
    )


def test_two_that_claim_a_type_are_both_named(offer, loaded):
    offer("one", "'llama',")
    offer("two", "'llama',")
    registry = loaded()
    with pytest.raises(PluginError, match=r"'one' of tcplug-one 1\.0 and by 'two' of tcplug-two 1\.0; choose with"):
        registry.architecture_for("llama")
    assert registry.architecture_for("llama", "two").name == "two"


def test_an_unknown_architecture_is_refused(offer, loaded):
    offer("qwen2", "'qwen2',")
    with pytest.raises(PluginError, match="unknown architecture 'qwen'; did you mean 'qwen2'"):
        loaded().architecture_for("qwen2", "qwen")
