"""What a chat keeps and obeys, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from truecluster._cli.chat import Conversation, Cost
from truecluster._text import TextFinished
from truecluster.api import RequestError

USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}


def test_what_was_said_is_asked_with() -> None:
    chat = Conversation(system="Be brief.")
    chat.add("Hi", "Hello.")
    assert chat.with_line("And?") == [
        {"role": "system", "content": "Be brief."},
        USER,
        ANSWER,
        {"role": "user", "content": "And?"},
    ]


def test_the_system_message_changes_from_now_on() -> None:
    chat = Conversation()
    assert chat.obey("/system") == "there is no system message; /system TEXT sets one"
    chat.add("Hi", "Hello.")
    assert chat.obey("/system Be brief.") == "system message: Be brief."
    assert chat.messages == [{"role": "system", "content": "Be brief."}, USER, ANSWER]
    assert chat.obey("/system") == "system message: Be brief."


def test_reset_keeps_the_system_message() -> None:
    chat = Conversation(system="Be brief.", said=[USER, ANSWER])
    chat.obey("/reset")
    assert chat.messages == [{"role": "system", "content": "Be brief."}]


def test_save_writes_messages_as_the_api_takes_them(tmp_path: Path) -> None:
    chat = Conversation(said=[USER, {"role": "assistant", "content": "héllo 🙂"}])
    told = chat.obey(f"/save {tmp_path / 'chat.json'}")
    assert told == f"2 messages in {tmp_path / 'chat.json'}"
    assert json.loads((tmp_path / "chat.json").read_text(encoding="utf-8")) == chat.messages


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/save", "/save needs the name of a file"),
        ("/save {folder}/there", "exists already; give another name"),
        ("/save {folder}/no/where", "can't be written: No such file"),
        ("/sytem hello", "/sytem is not a command; there are /system, /reset, /save, /help"),
    ],
)
def test_what_cannot_be_obeyed_says_why(tmp_path: Path, command: str, says: str) -> None:
    (tmp_path / "there").write_text("kept")
    with pytest.raises(RequestError, match=says):
        Conversation(said=[USER]).obey(command.format(folder=tmp_path))
    assert (tmp_path / "there").read_text() == "kept"


def test_raw_lines_stand_alone() -> None:
    chat = Conversation(raw=True)
    chat.add("Once", "upon")
    assert chat.messages == []
    with pytest.raises(RequestError, match="--raw has no chat template"):
        chat.obey("/system Be brief.")


def test_the_cost_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """11 tokens, the first after half a second, the other ten in two seconds: 5.0 tokens a second."""
    times = iter([100.0, 100.5, 102.5])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    cost = Cost(begun=next(times))
    cost.more()
    finished = TextFinished(reason="length", ids=tuple(range(11)), generated=11)
    assert cost.line(finished) == "[11 tokens, cut at --max-tokens, first after 0.50 s, then 5.0 tokens/s]"


def test_a_stopped_answer_says_so() -> None:
    assert Cost(begun=1.0, first=1.25).line(None) == "[stopped, first after 0.25 s]"
