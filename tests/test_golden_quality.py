"""How often a quantized model chooses the token that the whole model chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import Layout, agreement, cluster
from goldens import goldens, real_model

SMOLLM2, QWEN = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("quant", "least"), [("int8", 0.99), ("int4", 0.95)])
@pytest.mark.parametrize("model", [SMOLLM2, QWEN])
def test_agreement(model: str, quant: str, least: float, tmp_path: Path) -> None:
    """Teacher-forced, over the steps that are decidable."""
    with cluster(real_model(model), tmp_path, Layout(head="last-stage"), quant) as made:
        found = agreement(made, goldens(model))
    assert found.share >= least, found
