"""Special tokens and chat templates, in every place where models keep them."""

from __future__ import annotations

import json

import pytest
from tcplug_hf.source import HfSource

from truecluster.api import CheckpointError, OpenOptions

CONFIG = "tokenizer_config.json"


def opened(path):
    return HfSource().open(str(path), OpenOptions())


def single(*items):
    """A template post-processor."""
    return {"type": "TemplateProcessing", "single": list(items), "pair": [], "special_tokens": {}}


BOS, TEXT = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}


@pytest.mark.parametrize(
    ("files", "templates"),
    [
        ({}, {}),
        ({CONFIG: {"chat_template": "T"}}, {"default": "T"}),
        (
            {CONFIG: {"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "U"}]}},
            {"default": "D", "tool_use": "U"},
        ),
        ({"chat_template.jinja": "J"}, {"default": "J"}),
        ({CONFIG: {"chat_template": "T"}, "chat_template.jinja": "J"}, {"default": "J"}),
        ({"chat_template.json": {"chat_template": "P"}}, {"default": "P"}),
        ({CONFIG: {"chat_template": "T"}, "chat_template.json": {"chat_template": "P"}}, {"default": "P"}),
        ({"chat_template.json": {"chat_template": "P"}, "chat_template.jinja": "J"}, {"default": "J"}),
        (
            {"chat_template.jinja": "J", "additional_chat_templates/rag.jinja": "R"},
            {"default": "J", "rag": "R"},
        ),
    ],
)
def test_templates(folder, files, templates):
    assert opened(folder(files=files)).chat_templates == templates


@pytest.mark.parametrize("value", [5, [1], [{"name": "default"}], [{"name": 1, "template": "x"}], {"a": "b"}])
def test_wrong_templates_are_refused(folder, value):
    with pytest.raises(CheckpointError, match="chat_template must be"):
        opened(folder(files={CONFIG: {"chat_template": value}}))


def test_special_tokens_are_texts_or_objects(folder):
    files = {CONFIG: {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>", "add_bos_token": True}}
    data = opened(folder(files=files)).tokenizer()
    assert (data.bos, data.eos, data.add_bos, data.folder) == ("<s>", "</s>", True, None)
    assert json.loads(data.json)["model"]["type"] == "BPE"


def test_the_map_fills_what_the_config_leaves_out(folder):
    files = {
        CONFIG: {"bos_token": None, "eos_token": "</s>"},
        "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "x"},
    }
    data = opened(folder(files=files)).tokenizer()
    assert (data.bos, data.eos) == ("<s>", "</s>")


@pytest.mark.parametrize(
    ("processor", "stated", "adds"),
    [
        (None, None, False),
        (single(BOS, TEXT), None, True),
        (single(TEXT), None, False),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, single(BOS, TEXT)]}, None, True),
        (single(BOS, TEXT), False, False),
        (None, True, True),
    ],
)
def test_who_puts_bos_first(folder, processor, stated, adds):
    facts = {"bos_token": "<s>"} | ({} if stated is None else {"add_bos_token": stated})
    files = {"tokenizer.json": {"model": {"type": "BPE"}, "post_processor": processor}, CONFIG: facts}
    assert opened(folder(files=files)).tokenizer().add_bos is adds


def test_only_transformers_can_build_it(folder):
    path = folder(files={"tokenizer.json": None, CONFIG: {"eos_token": "</s>"}})
    data = opened(path).tokenizer()
    assert (data.json, data.folder, data.eos) == (None, str(path), "</s>")


def test_a_folder_without_any_is_refused(folder):
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json and no other tokenizer"):
        opened(folder(files={"tokenizer.json": None})).tokenizer()


def test_a_wrong_token_is_named(folder):
    with pytest.raises(CheckpointError, match="eos_token must be a text"):
        opened(folder(files={CONFIG: {"eos_token": 5}})).tokenizer()


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_tokenizer_is_named(folder, text):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        opened(folder(files={"tokenizer.json": text})).tokenizer()
