"""Nobody should wonder why a CPU is slow: what only the reference reads is said, with the remedy."""

from __future__ import annotations

import pytest
from tiny_models import TinyModel

from truecluster._registry.kernels import Kernels


def test_a_format_that_no_kernel_takes_is_named(caplog: pytest.LogCaptureFixture) -> None:
    TinyModel.make().whole()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "no kernel of this CPU takes plain" in record.getMessage()
    assert "--quant int4, int8 or fp16 is faster" in record.getMessage()


def test_a_kernel_that_is_not_there_says_why(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TinyModel.make()
    absent = Kernels((), {"cpu": "installed without a C compiler"})
    monkeypatch.setattr(model.registry, "kernels", lambda: absent)
    model.whole()
    assert "cpu: installed without a C compiler" in caplog.text
