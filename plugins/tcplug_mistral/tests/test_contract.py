"""Mistral under the contract that `tc plugin check mistral` applies."""

from pathlib import Path

import tcplug_mistral
from tcplug_mistral.contract import *  # noqa: F403


def test_the_architecture_is_at_most_eighty_lines():
    assert len((Path(tcplug_mistral.__file__).parent / "model.py").read_text().splitlines()) <= 80
