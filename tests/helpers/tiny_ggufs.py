"""Small random Llama and Qwen2 models of transformers, written as GGUF files by the gguf package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from goldens import Golden

SIZE = {
    "vocab_size": 260,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attn_output",
    **{f"self_attn.{name}_proj": f"attn_{name}" for name in "qkv"},
    **{f"mlp.{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")},
}
TOKENS = 12


def network(family: str, seed: int = 7, **config: Any) -> Any:
    """A model of transformers; weights large enough that attention isn't uniform."""
    import transformers

    made = {"llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM)}
    made["qwen2"] = (transformers.Qwen2Config, transformers.Qwen2ForCausalLM)
    config_type, network_type = made[family]
    torch.manual_seed(seed)
    built = network_type(config_type(**{**SIZE, **config}, attn_implementation="eager")).eval()
    for name, parameter in built.named_parameters():
        parameter.data.normal_(float("norm" in name), 0.2)
    return built


def write_gguf(
    path: Path,
    network: Any,
    keys: dict[str, Any],
    kind: str = "F32",
    vectors: dict[str, np.ndarray[Any, Any]] | None = None,
    pieces: int = 0,
) -> None:
    """``keys`` are those that a plain model hasn't got, without the family. The network gets the values of blocks."""
    config = network.config
    family = config.model_type
    writer = gguf.GGUFWriter(path, family, split_max_tensors=pieces)
    for key, value in {**_usual(config), **keys}.items():
        _adder(writer, value)(f"{family}.{key}", value)
    _add_vocabulary(writer, config.vocab_size)
    for name, values in (vectors or {}).items():
        writer.add_tensor(name, values)
    wanted = gguf.GGMLQuantizationType[kind]
    for name, parameter in network.named_parameters():
        used = wanted if parameter.dim() > 1 else gguf.GGMLQuantizationType.F32
        packed = gguf.quantize(parameter.detach().numpy(), used)
        parameter.data = torch.from_numpy(gguf.dequantize(packed, used).copy())
        writer.add_tensor(renamed(name), np.ascontiguousarray(_paired(name, packed, config)), raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def renamed(name: str) -> str:
    """``model.layers.3.self_attn.q_proj.bias`` → ``blk.3.attn_q.bias``."""
    stem, _, suffix = name.rpartition(".")
    if stem.startswith("model.layers."):
        number, _, rest = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{NAMES[rest]}.{suffix}"
    return f"{NAMES[stem]}.{suffix}"


def _paired(name: str, rows: np.ndarray[Any, Any], config: Any) -> np.ndarray[Any, Any]:
    """Llama's q and k as llama.cpp wants them: rotated pairs beside each other, head by head."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return rows
    return rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _usual(config: Any) -> dict[str, Any]:
    return {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "rope.dimension_count": config.hidden_size // config.num_attention_heads,
    }


def _adder(writer: gguf.GGUFWriter, value: object) -> Any:
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    return kinds.get(type(value), writer.add_array)


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """Bytes by GPT-2's stand-ins, then tokens that nothing makes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    tokens = [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *(f"<{i}>" for i in range(256, size))])
    writer.add_token_types([1] * 256 + [3] * (size - 256))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(size - 1)


@torch.no_grad()
def asked(network: Any, length: int = 200, seed: int = 3) -> Golden:
    """A random prompt with the network's own greedy answer."""
    ids = torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
    answer: list[int] = []
    margins = []
    for _ in range(TOKENS):
        best = network(torch.tensor([ids + answer])).logits[0, -1].topk(2)
        answer.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
    return Golden(kind="raw", prompt=None, ids=tuple(ids), greedy=tuple(answer), margins=tuple(margins))
