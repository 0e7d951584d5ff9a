"""Elements that safetensors files hold: those that are weights are torch's own, the others are refused by name."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from tcplug_hf.formats import SafetensorsFormat
from tcplug_hf.source import HfSource

from truecluster.api import CheckpointError, OpenOptions, PluginError

READ = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2},
}
REFUSED = {
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8},
    **{"U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool, "C64": torch.complex64},
    **{"F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz},
}


def opened(path):
    return HfSource().open(str(path), OpenOptions())


@pytest.mark.parametrize("dtype", READ)
def test_what_makes_sense_as_weights_is_read(folder, dtype):
    path, values = folder(), torch.tensor([[1.5, -0.25, 0.0], [2.0, 448.0, -0.0625]])
    save_file({"w": values.to(READ[dtype]), "v": values[0].to(READ[dtype]).clone()}, path / "model.safetensors")
    checkpoint = opened(path)
    for name, expected in (("w", values), ("v", values[0])):
        packed, info = checkpoint.read(name), checkpoint.tensors[name]
        assert (packed.format, packed.shape, packed.data.numel()) == (info.format, info.shape, info.nbytes)
        if packed.format.startswith("safetensors."):
            assert torch.equal(SafetensorsFormat.from_id(packed.format).unpack(packed), expected)


@pytest.mark.parametrize("dtype", REFUSED)
def test_what_is_no_weight_is_refused_by_tensor_and_type(folder, dtype):
    path = folder()
    save_file({"w": torch.zeros(2, 2).to(REFUSED[dtype])}, path / "model.safetensors")
    checkpoint = opened(path)
    with pytest.raises(CheckpointError, match=rf"tensor 'w' has elements of type {dtype}, .*supported: F64, F32"):
        checkpoint.read("w")
    with pytest.raises(PluginError, match="is not read as weights"):
        SafetensorsFormat.from_id(checkpoint.tensors["w"].format)
