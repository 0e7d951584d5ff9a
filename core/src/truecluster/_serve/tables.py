"""Which fields of OpenAI's schema and of its peers' aren't honoured, and the values of theirs that ask for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fields import Check, boolean, mapping, string

Neutral = Mapping[str, tuple[Any, ...]]

_ZERO = (0, 0.0)
_ONE = (1, 1.0)

HARMLESS: Mapping[str, Check[Any]] = {
    "metadata": mapping,
    "store": boolean,
    "service_tier": string,
    "prompt_cache_key": string,
    "prompt_cache_retention": string,
    "prompt_cache_options": mapping,
}
"""They change nothing in an answer's text."""

_BOTH: Neutral = {
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "moderation": (),
}

_PEERS: Neutral = {
    "typical_p": _ONE,
    "tfs_z": _ONE,
    "top_a": _ZERO,
    "repeat_penalty": _ONE,
    "length_penalty": _ONE,
    "min_tokens": (0,),
    "n_predict": (),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_special_tokens": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "logits_processors": ([],),
    "truncate_prompt_tokens": (),
    "prompt_logprobs": (),
    "return_token_ids": (False,),
    "use_beam_search": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "grammar": ("",),
    "json_schema": (),
    "regex": (),
    "ebnf": (),
    "mirostat": (0,),
    "dynatemp_range": _ZERO,
    "xtc_probability": _ZERO,
    "dry_multiplier": _ZERO,
    "samplers": (),
    "n_probs": (0,),
    "reasoning": (),
    "reasoning_format": (),
    "thinking": (),
}
"""Of vLLM, SGLang, llama.cpp and others."""

COMPLETION: Neutral = {
    **_BOTH,
    **_PEERS,
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "suffix": ("",),
    "messages": (),
    "max_completion_tokens": (),
    "top_logprobs": (),
}

CHAT: Neutral = {
    **_BOTH,
    **_PEERS,
    "suffix": (),
    "prompt": (),
    "best_of": (1,),
    "echo": (False,),
}

_BY_SCHEMA = "give 'response_format' with a JSON schema"

INSTEAD: Mapping[str, str] = {
    "functions": "give 'tools'",
    "function_call": "give 'tool_choice'",
    "tools": "ask /v1/chat/completions",
    "tool_choice": "ask /v1/chat/completions",
    "parallel_tool_calls": "ask /v1/chat/completions",
    "messages": "give 'prompt', or ask /v1/chat/completions",
    "prompt": "give 'messages', or ask /v1/completions",
    "max_completion_tokens": "give 'max_tokens'",
    "n_predict": "give 'max_tokens'",
    "top_logprobs": "give 'logprobs' with the number",
    "n_probs": "give 'logprobs'",
    "prompt_logprobs": "give 'echo' and 'logprobs' to /v1/completions",
    "echo": "ask /v1/completions",
    "best_of": "give 'n'",
    "repeat_penalty": "give 'repetition_penalty'",
    "stop_token_ids": "give 'stop' with strings",
    "bad_words": "give 'logit_bias'",
    "structured_outputs": _BY_SCHEMA,
    "guided_json": _BY_SCHEMA,
    "guided_choice": _BY_SCHEMA,
    "json_schema": _BY_SCHEMA,
    "continuous_usage_stats": "give 'include_usage'",
}
"""What asks for the same, or nearly, and is honoured."""

STREAM_OPTIONS: Neutral = {"include_obfuscation": (False,), "continuous_usage_stats": (False,)}
