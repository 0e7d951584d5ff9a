"""What a spec refuses when it is made: before it can claim what it doesn't mean."""

from __future__ import annotations

import pytest

from truecluster.api import ArchitectureSpec, CheckpointSpec


def architecture(**fields):
    return ArchitectureSpec(**{"name": "mine", "target": "x:Y", "model_types": ("mine",), **fields})


def checkpoint(**fields):
    return CheckpointSpec(**{"name": "mine", "target": "x:Y", "forms": ("*.mine",), **fields})


@pytest.mark.parametrize(
    ("make", "field"),
    [(architecture, "model_types"), (architecture, "hosts"), (checkpoint, "forms"), (checkpoint, "markers")],
)
def test_a_text_is_no_tuple_of_texts(make, field):
    with pytest.raises(ValueError, match=rf"^{field} of 'mine' is '\*\.gguf', no tuple of str; write \('\*\.gguf',\)$"):
        make(**{field: "*.gguf"})
    for wrong in (["a"], ("a", 1), ("",)):
        with pytest.raises(ValueError, match=f"{field} of 'mine' is .*; give a tuple of str that aren't empty"):
            make(**{field: wrong})


@pytest.mark.parametrize("form", ["mine", "*", "**.mine", "*.a/b", "folder", ":", "m:", "mine:x"])
def test_a_form_that_fits_no_reference_is_refused(form):
    with pytest.raises(ValueError, match=r"^form .* of 'mine' fits no reference; give a prefix such as 'pypi:', an"):
        checkpoint(forms=("*.mine", form))


def test_a_source_that_would_never_be_chosen_is_refused():
    with pytest.raises(ValueError, match="'mine' has no forms, so it opens nothing"):
        checkpoint(forms=())
    with pytest.raises(ValueError, match="'mine' opens folders and names no markers"):
        checkpoint(forms=("FOLDER",))
    for form in ("pypi:", "*.gguf", "*.safetensors.index.json", "ORG/NAME"):
        assert checkpoint(forms=(form,)).forms == (form,)
    assert checkpoint(forms=("FOLDER",), markers=("config.json",)).markers == ("config.json",)
