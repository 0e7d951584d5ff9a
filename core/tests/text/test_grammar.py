"""Grammars, by which text they let through: a token here is a byte, or what is said of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from schemas import BOUNDED
from sockets import wait_until
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from truecluster._engine.requests import Constraint
from truecluster._text import grammar, trials, turns
from truecluster._text.constraints import Grammars
from truecluster._text.grammar import MAX_SOURCE, Grammar, json_rule
from truecluster._text.tokenizer import Tokenizer as OurTokenizer
from truecluster.api import Busy, RequestError, TokenizerData

END, EOT, TOOL = 257, 258, 259
EOS = frozenset({END, EOT})
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def grammars(byte_data: TokenizerData) -> Grammars:
    return Grammars(OurTokenizer(byte_data))


def allowed(constraint: Constraint) -> set[int]:
    """The ids in a mask, each a bit, least significant first."""
    mask = constraint.mask()
    return {id for id in range(8 * len(mask)) if mask[id // 8] >> id % 8 & 1}


def takes(constraint: Constraint, text: str) -> bool:
    """Whether an answer may be just ``text``: each byte in turn, and then an end."""
    data = text.encode()
    ended = [constraint.accept(byte) for byte in data if byte in allowed(constraint)]
    return len(ended) == len(data) and not any(ended[:-1]) and allowed(constraint) >= EOS


@pytest.fixture
def schema(grammars: Grammars) -> Callable[[Any], Constraint]:
    return lambda schema: grammars.start(Grammar.json_schema(schema), EOS)()


@pytest.mark.parametrize(
    ("given", "yes", "no"),
    [
        (
            {"type": "object"},
            ["{}", '{"a": [1, {"b": null}], "é": "x\\n"}', '{"a":1}'],
            ["[]", '{"a": }', '{"a": 1,}', "1"],
        ),
        (PERSON, ['{"name": "A", "age": 3}', '{"name":"","age":-1}'], ['{"name": "A"}', '{"age": 3, "name": "A"}']),
        ({}, ["1", '"a"', "[true]", "null"], ["a", "", "tru"]),
        ({"enum": ["a", 1, None]}, ['"a"', "1", "null"], ['"b"', "2", '"1"']),
        ({"const": {"a": [1]}}, ['{"a": [1]}'], ['{"a": [2]}', "{}"]),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            ["[1]", "[1, 2]"],
            ["[]", "[1, 2, 3]"],
        ),
        ({"type": "string", "pattern": "^[a-c]{2}$"}, ['"ab"'], ['"a"', '"abc"', '"xy"']),
        ({"type": "integer", "minimum": 5, "maximum": 12}, ["5", "12"], ["4", "13", "5.5"]),
        ({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}]}, ["null", '"ab"'], ['"abc"', "3"]),
        (
            {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}},
            ["[]", "[[[]], []]"],
            ["[1]", "[[]"],
        ),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_what_the_schema_holds_for_is_taken_and_nothing_else(schema, given, yes, no):
    for text in yes:
        jsonschema.validate(json.loads(text), given)
        assert takes(schema(given), text), text
    for text in no:
        assert not takes(schema(given), text), text


@pytest.mark.parametrize("text", ['{"a":[1,2]}', '{"a": [1, 2]}', '{"a": [1,2], "b":{}}'])
def test_one_space_may_stand_behind_colons_and_commas(schema, text):
    assert takes(schema({"type": "object"}), text)


@pytest.mark.parametrize("text", ['{ "a": 1}', '{"a" : 1}', '{"a": 1 }', '{"a": 1 ,"b": 2}', "{ }", '{"a": [ 1]}'])
def test_no_space_stands_where_nobody_writes_one(schema, text):
    assert not takes(schema({"type": "object"}), text)


@pytest.mark.parametrize("text", ['{  "a": 1}', '{\n"a": 1}', '{\t"a": 1}', ' {"a": 1}', '{"a": 1} ', '{"a":  1}'])
def test_white_space_that_could_go_on_for_ever_may_not_begin(schema, text):
    assert not takes(schema({"type": "object"}), text)


def test_the_end_may_come_exactly_where_the_json_is_whole(grammars):
    constraint = grammars.start(Grammar.json_schema({"type": "array", "items": {"type": "integer"}}), EOS)()
    ended = [(allowed(constraint) & EOS, constraint.accept(byte)) for byte in b"[10, 2]"]
    assert ended == [(frozenset(), False)] * 6 + [(frozenset(), True)]
    assert allowed(constraint) == EOS


def test_a_number_may_go_on_or_end(schema):
    constraint = schema({"type": "integer"})
    assert constraint.accept(ord("4")) is False
    assert allowed(constraint) == {*EOS, *range(ord("0"), ord("9") + 1)}


def test_ids_that_are_no_token_and_control_tokens_never_come(grammars, byte_data):
    """<tool_call> is text that this tokenizer has a token for."""
    size = OurTokenizer(byte_data).size
    constraint = grammars.start(Grammar.json_schema({"type": "string"}), frozenset())()
    constraint.accept(ord('"'))
    letters = set(range(0x20, 0x100)) - {*range(0x80, 0xC2), *range(0xF5, 0x100)}  # a character's first byte
    assert allowed(constraint) - letters == {TOOL}
    assert letters - allowed(constraint) <= {0x7F}
    assert 8 * len(constraint.mask()) >= size


def test_a_hole_in_the_vocabulary_never_comes():
    letters = {chr(i): 2 * i for i in range(128)}
    library = Tokenizer(models.BPE(vocab=letters, merges=[]))
    library.decoder = decoders.Fuse()
    grammars = Grammars(OurTokenizer(TokenizerData(json=library.to_str())))
    constraint = grammars.start(Grammar.json_schema({"type": "string"}), frozenset())()
    constraint.accept(2 * ord('"'))
    assert {id for id in allowed(constraint) if id % 2} == set()
    assert 2 * ord("a") in allowed(constraint)


@pytest.mark.parametrize("eos", [frozenset(), frozenset({EOT}), EOS, frozenset({EOT, 100_000})], ids=str)
def test_the_ends_are_the_request_s_own(grammars, eos):
    constraint = grammars.start(Grammar.json_schema({"const": 1}), eos)()
    assert not allowed(constraint) & EOS
    assert constraint.accept(ord("1"))
    assert allowed(constraint) == eos - {100_000}


def test_an_end_that_is_a_letter_ends_nothing_before_its_time(grammars):
    constraint = grammars.start(Grammar.json_schema({"type": "string"}), frozenset({ord("x")}))()
    constraint.accept(ord('"'))
    assert ord("x") not in allowed(constraint)
    constraint.accept(ord('"'))
    assert allowed(constraint) == {ord("x")}


def test_answers_to_one_grammar_know_nothing_of_each_other(grammars):
    start = grammars.start(Grammar.json_schema(PERSON), EOS)
    first, second = start(), start()
    for byte in b'{"na':
        first.accept(byte)
    assert allowed(first) == {ord("m")}
    assert ord("{") in allowed(second)
    assert takes(second, '{"name": "B", "age": 2}')


def test_a_token_that_was_not_allowed_is_found(grammars):
    constraint = grammars.start(Grammar.json_object(), EOS)()
    constraint.accept(ord("x"))
    with pytest.raises(RequestError, match="can't be enforced"):
        constraint.mask()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"type": "strin"}, "Invalid type: strin"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"not": {}}, "not"),
        ({"type": "object", "x-guidance": {"lenient": True}, "if": {}}, "if"),
        ({"type": "string", "format": "phone"}, "Unknown format: phone"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "pattern": "("}, "unclosed group"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"$ref": "http://127.0.0.1:9/a.json"}, "'$ref' to http://127.0.0.1:9/a.json refers to another document"),
        ({"$ref": "other.json#/a"}, "to other.json refers to another document, which isn't fetched; put it into"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum"),
        ({"oneOf": [{"type": "string"}, {"maxLength": 3}]}, "oneOf"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "unsatisfiable"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_can_not_be_enforced_is_refused_in_one_line(given, reason):
    with pytest.raises(RequestError) as caught:
        Grammar.json_schema(given, "the.field")
    message = str(caught.value)
    assert message.startswith("'the.field' can't be enforced: ")
    assert reason in message
    assert "\n" not in message
    assert len(message) < 400
    assert caught.value.param == "the.field"


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "given",
    [
        nested(400),
        nested(20_000),
        {"enum": ["x" * 100 + str(i) for i in range(MAX_SOURCE // 100)]},
    ],
    ids=["deep", "deeper", "long"],
)
def test_a_schema_that_is_too_large_is_refused(given):
    with pytest.raises(RequestError):
        Grammar.json_schema(given)


@pytest.mark.parametrize(
    "pattern", ["(a{1,1000}){1,1000}", ".*a.{300}b.*", "^(a|aa|aaa|b)*c{100,2000}(d|e.*f){1,50}$", "(.*a){40}"]
)
def test_a_costly_pattern_is_refused_or_followed(grammars, pattern):
    """Never a hang: each step has its limits."""
    try:
        constraint = grammars.start(Grammar.json_schema({"type": "string", "pattern": pattern}), EOS)()
        for byte in b'"aaaaaaaa':
            if byte in allowed(constraint):
                constraint.accept(byte)
    except RequestError:
        return
    assert allowed(constraint)


MINUTES = {"anyOf": [{"type": "integer", "multipleOf": number} for number in range(900, 905)]}
"""Compiling it was given up after a hundred seconds."""


def test_a_schema_that_takes_minutes_to_compile_is_refused_and_others_are_not(monkeypatch):
    monkeypatch.setattr(trials, "SECONDS", 0.5)
    tried = trials.Trials()
    monkeypatch.setattr(grammar, "TRIALS", tried)
    try:
        for refused in (
            lambda: Grammar.json_schema(MINUTES),
            lambda: Grammar.lark(f"start: <[900]> {json_rule(MINUTES)}"),
        ):
            with pytest.raises(RequestError, match="compiling it takes more than"):
                refused()
        assert Grammar.json_schema({"type": "integer"})
    finally:
        tried.stop()


def test_grammars_take_not_all_threads():
    """Those who come when many wait are told to come again, so that requests without a grammar are answered."""
    queue, inside, leave = turns.Turns(), threading.Event(), threading.Event()

    def take() -> None:
        with queue.turn():
            inside.set()
            leave.wait(20)

    threads = [threading.Thread(target=take) for _ in range(turns.WAITING)]
    for thread in threads:
        thread.start()
    assert inside.wait(20)
    wait_until(lambda: queue._places._value == 0)
    with pytest.raises(Busy), queue.turn():
        pass
    leave.set()
    for thread in threads:
        thread.join(20)
    with queue.turn():
        pass


def test_a_lark_grammar_holds_json_and_tokens(grammars):
    """An added token that isn't special is text; a special one is named as such."""
    call = json_rule({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
    source = f'start: "<tool_call>" body (<|im_end|> "x")?\nbody: {call}'
    start = grammars.start(Grammar.lark(source), frozenset({EOT}))
    token = start()
    assert allowed(token) == {TOOL}
    token.accept(TOOL)
    for byte in b'{"a": 12':
        token.accept(byte)
    assert ord("\n") not in allowed(token)
    token.accept(ord("}"))
    assert allowed(token) == {EOT, END}
    token.accept(END)
    assert allowed(token) == {ord("x")}


@pytest.mark.parametrize("source", ["start: a", 'start: "', "", 'start: %json {"type": "strin"}'])
def test_a_broken_lark_grammar_is_refused_in_one_line(source):
    with pytest.raises(RequestError, match=r"^this grammar can't be enforced: [^\n]+$"):
        Grammar.lark(source)


def sentencepiece_like() -> tuple[OurTokenizer, dict[str, int]]:
    """As Llama 2's: a space is "▁", one is put before every text, and bytes that have no letter have tokens."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "{", "}", '"', ":", "a", "▁a", "▁{"]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    library = Tokenizer(models.BPE(vocab=vocab, merges=[("▁", "a"), ("▁", "{")], unk_token="<unk>", byte_fallback=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.add_special_tokens([AddedToken("</s>", special=True), AddedToken("<unk>", special=True)])
    return OurTokenizer(TokenizerData(json=library.to_str(), eos="</s>")), vocab


def test_a_tokenizer_of_pieces_and_bytes():
    tokenizer, vocab = sentencepiece_like()
    constraint = Grammars(tokenizer).start(Grammar.json_schema({"enum": ["é a"]}), frozenset({1}))()
    for piece, others in (
        ('"', {"<0x22>"}),
        ("<0xC3>", set()),
        ("<0xA9>", set()),
        ("▁a", {"▁", "<0x20>"}),
        ('"', {"<0x22>"}),
    ):
        assert vocab[piece] in allowed(constraint)
        assert allowed(constraint) <= {vocab[each] for each in {piece, *others}}
        ended = constraint.accept(vocab[piece])
    assert ended
    assert allowed(constraint) == {1}


def test_pieces_with_a_space_before_them_do_not_begin_json():
    tokenizer, vocab = sentencepiece_like()
    constraint = Grammars(tokenizer).start(Grammar.json_object(), frozenset({1}))()
    assert allowed(constraint) <= {vocab["{"], vocab["<0x7B>"]}
    assert vocab["{"] in allowed(constraint)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_drawn_is_json_that_the_schema_holds_for(grammars, byte_data, seed):
    constraint = grammars.start(Grammar.json_schema(BOUNDED), frozenset({EOT}))()
    draw = np.random.default_rng(seed)
    ids: list[int] = []
    while not (ids and ids[-1] == EOT) and (not ids or not constraint.accept(ids[-1])):
        ids.append(int(draw.choice(sorted(allowed(constraint)))))
    text = OurTokenizer(byte_data).decode(ids)
    jsonschema.validate(json.loads(text), BOUNDED)


class _Ended(trials.Trials):
    def _running(self):
        process = super()._running()
        process.kill()
        process.wait()
        return process


def test_a_trial_whose_process_somebody_ends_says_nothing_of_the_grammar():
    tried = _Ended()
    for _ in range(2):
        with pytest.raises(Busy, match="the process that tries grammars ended"):
            tried.wrong("{}")
    assert tried._process is None
