"""The offers: names, and what the default is."""

from __future__ import annotations

import subprocess
import sys

from tcplug_quant.plugin import truecluster_quantizers

from truecluster.api import FormatSpec, QuantizerSpec

RECIPES = {offer.name: offer for offer in truecluster_quantizers() if isinstance(offer, QuantizerSpec)}
FORMATS = {offer.name: offer for offer in truecluster_quantizers() if isinstance(offer, FormatSpec)}


def test_the_names():
    assert set(FORMATS) == {"fp32", "fp16", "bf16", "int8", "int4"}
    assert set(RECIPES) == {"fp32", "fp16", "bf16", "int8", "int4", "int4.*"}


def test_the_default_int4_is_what_smollm2_needs():
    assert RECIPES["int4"].roles == {
        "linear": "int4.g32.asym",
        "head": "int8",
        "embedding": "int8",
        "norm": "keep",
        "bias": "keep",
    }


def test_declaring_imports_no_torch():
    code = "import sys, tcplug_quant.plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
