"""A small random Qwen2 model with a tokenizer of bytes, written by hand as a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 132,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": None,
    "eos_token_id": 131,
    "use_sliding_window": False,
}
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}<s>{{ m.role }}:{{ m.content }}"
    """{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<e>"""
    "{% endfor %}<s>assistant:"
)
END = 131
"""Its row of the head is zero, so that it is hardly ever the likeliest."""
TURN_END = 129
"""What the template puts behind a turn, so that it ends an answer in a chat, too."""


def shapes(config: dict[str, Any] = CONFIG) -> dict[str, tuple[int, ...]]:
    """Tensor name → shape, as transformers names them."""
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for i in range(config["num_hidden_layers"]):
        block = f"model.layers.{i}"
        for name, rows in (("q", hidden), ("k", keys), ("v", keys)):
            found[f"{block}.self_attn.{name}_proj.weight"] = (rows, hidden)
            found[f"{block}.self_attn.{name}_proj.bias"] = (rows,)
        found[f"{block}.self_attn.o_proj.weight"] = (hidden, hidden)
        found[f"{block}.mlp.gate_proj.weight"] = found[f"{block}.mlp.up_proj.weight"] = (inner, hidden)
        found[f"{block}.mlp.down_proj.weight"] = (hidden, inner)
        found[f"{block}.input_layernorm.weight"] = found[f"{block}.post_attention_layernorm.weight"] = (hidden,)
    return {**found, "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}


def tensors(**config: Any) -> dict[str, Any]:
    """Random weights in fp16, large enough that answers don't hang on rounding."""
    import torch

    generator = torch.Generator().manual_seed(0)
    wanted = shapes({**CONFIG, **config})
    made = {name: torch.randn(shape, generator=generator) * 0.15 for name, shape in wanted.items()}
    for name, tensor in made.items():
        if "norm" in name:
            tensor += 1
    made["lm_head.weight"][END] = 0
    return {name: tensor.half() for name, tensor in made.items()}


def tokenizer_json() -> str:
    """A letter of ASCII is a token with the letter's number; four control tokens follow."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    library = Tokenizer(models.BPE(vocab={chr(i): i for i in range(128)}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    library.decoder = decoders.Fuse()
    library.add_special_tokens([AddedToken(text, special=True) for text in ("<s>", "<e>", "<pad>", "<end>")])
    return str(library.to_str())


def write_tiny(folder: Path, weights: dict[str, Any] | None = None, **config: Any) -> Path:
    """Write the model with other ``weights`` or changed keys of its ``config``; returns the folder."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    settings = {"eos_token": "<end>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    save_file(tensors(**config) if weights is None else weights, folder / "model.safetensors")
    return folder
