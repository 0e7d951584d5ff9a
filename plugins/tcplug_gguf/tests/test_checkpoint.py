"""What a file says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import gguf
import numpy as np
import pytest
from tcplug_gguf.checkpoint import GgufSource
from tcplug_gguf.formats import GgufFormat

from truecluster.api import CannotPack, CheckpointError, OpenOptions, PluginError, QuantizerSpec, Role


def open_file(path):
    return GgufSource().open(str(path), OpenOptions())


def test_metadata_has_the_keys_without_the_vocabulary(tiny):
    metadata = open_file(tiny.write()).metadata
    assert metadata["general.architecture"] == "qwen2"
    assert metadata["general.languages"] == ["en", "de"]
    assert metadata["tokenizer.ggml.tokens.count"] == 266
    assert type(metadata["tokenizer.ggml.tokens.count"]) is int
    assert not {"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"} & set(metadata)


def test_name_family_and_templates(tiny):
    checkpoint = open_file(tiny.write("Some-Model.Q4_1.gguf"))
    assert (checkpoint.name, checkpoint.container, checkpoint.model_type) == ("Some-Model.Q4_1", "gguf", "qwen2")
    assert checkpoint.chat_templates == {"default": "{{ messages }}", "tool_use": "{{ tools }}"}


def test_a_base_model_has_no_template(tiny):
    """TOK-07."""
    keys = {"tokenizer.chat_template": None, "tokenizer.chat_template.tool_use": None}
    assert open_file(tiny.write(keys=keys)).chat_templates == {}


def test_endings_are_what_the_keys_name_and_the_known_ones(tiny):
    """TOK-05: eos, eot and eom, and the turn's end where a file names only the text's."""
    start, end = 262, 263
    assert open_file(tiny.write()).generation == {"eos_token_id": end}
    named = tiny.write("b.gguf", keys={"tokenizer.ggml.eos_token_id": start, "tokenizer.ggml.eot_token_id": 5})
    assert open_file(named).generation == {"eos_token_id": [start, 5, end]}


def test_without_ids_and_vocabulary_there_are_no_endings(tiny):
    keys = {"tokenizer.ggml.eos_token_id": None, "tokenizer.ggml.tokens": None}
    assert open_file(tiny.write(keys=keys)).generation == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [("tokenizer.ggml.eos_token_id", "two"), ("tokenizer.chat_template", 7), ("tokenizer.ggml.eot_token_id", 1.5)],
)
def test_a_key_of_a_wrong_type_is_named(tiny, key, value):
    """GGUF-07."""
    with pytest.raises(CheckpointError, match=key):
        open_file(tiny.write(keys={key: value}))


@pytest.mark.parametrize("alignment", [32, 64, 256])
def test_any_alignment(tiny, dequantized, alignment):
    checkpoint = open_file(tiny.write("aligned.gguf", alignment=alignment))
    for name in dequantized:
        if checkpoint.tensors[name].format.startswith("gguf."):
            packed = checkpoint.read(name)
            assert GgufFormat.from_id(packed.format).unpack(packed).equal(dequantized[name])


def with_matrices(path, matrices):
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tensor("output_norm.weight", np.ones(4096, dtype=np.float32))
    for index, (kind, columns) in enumerate(matrices):
        values = np.zeros((2, columns), dtype=np.float32)
        writer.add_tensor(f"blk.{index}.x.weight", gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("matrices", "dtype"),
    [
        ([("F32", 64)], "float32"),
        ([("F16", 64), ("F32", 32)], "float16"),
        ([("BF16", 64), ("F16", 32)], "bfloat16"),
        ([("Q8_0", 64), ("F16", 32)], "bfloat16"),
        ([("Q4_0", 64), ("Q8_0", 64), ("F16", 96)], "bfloat16"),
        ([("Q8_0", 32), ("F16", 64)], "float16"),
        ([], "float32"),
    ],
)
def test_the_dtype_is_that_of_most_elements_of_matrices(tmp_path, matrices, dtype):
    """No key says it; blocks were made of bf16 or wider. Vectors don't count."""
    kinds = [(gguf.GGMLQuantizationType[name], columns) for name, columns in matrices]
    assert open_file(with_matrices(tmp_path / "a.gguf", kinds)).metadata["tensors.dtype"] == dtype


def test_home_and_spaces_in_paths(tiny, tmp_path, monkeypatch):
    path = tiny.write()
    (tmp_path / "my models").mkdir()
    path.rename(tmp_path / "my models" / path.name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert open_file("~/my models/tiny-model.gguf").name == "tiny-model"


def test_formats_only_read(tiny):
    with pytest.raises(CannotPack, match=r"gguf\.q4_k"):
        GgufFormat.from_id("gguf.q4_k").pack(None)
    with pytest.raises(PluginError, match="multiples of 256"):
        GgufFormat.from_id("gguf.q4_k").wire_bytes((4, 32))


def test_the_plugin_offers_without_torch():
    code = (
        "import sys; from tcplug_gguf import plugin as p;"
        "specs = [*p.truecluster_checkpoints(), *p.truecluster_quantizers()];"
        "print([s.name for s in specs], 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['gguf', 'gguf', 'native'] False False"


def test_the_native_recipe_keeps_every_role():
    from tcplug_gguf.plugin import truecluster_quantizers

    (recipe,) = (spec for spec in truecluster_quantizers() if isinstance(spec, QuantizerSpec))
    assert recipe.roles == {role.value: "keep" for role in Role}


def test_real_files_open_fast_and_unpack_as_ggml_does(real):
    started = time.process_time()  # other processes may take the processor meanwhile
    checkpoint = open_file(real.with_name(f"{real.name}.gguf"))
    assert time.process_time() - started < 1
    seen = set()
    for name, info in checkpoint.tensors.items():
        if info.format in seen or not info.format.startswith("gguf."):
            continue
        seen.add(info.format)
        packed, kind = checkpoint.read(name), gguf.GGMLQuantizationType[info.format[5:].upper()]
        rows = GgufFormat.from_id(info.format).rows(packed, slice(0, 64))
        raw = packed.data.numpy().reshape(info.shape[0], -1)[:64]
        assert np.array_equal(rows.numpy(), gguf.dequantize(raw, kind))
    assert seen


def test_real_files_have_what_config_json_says(real):
    config = json.loads((real / "config.json").read_text())
    metadata = open_file(real.with_name(f"{real.name}.gguf")).metadata
    family = metadata["general.architecture"]
    assert metadata["tokenizer.ggml.tokens.count"] == config["vocab_size"]
    assert metadata[f"{family}.block_count"] == config["num_hidden_layers"]
    assert family == config["model_type"]
