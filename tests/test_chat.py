"""``tc run`` at a terminal, a real one: a pseudo-terminal."""

from __future__ import annotations

import json
import os
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from commands import Command, Commands, wait_gone

LONG = 3000


@attrs.frozen(eq=False)
class Chat:
    """A chat that is typed into."""

    command: Command
    keyboard: int

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def says(self, pattern: str, count: int = 1) -> None:
        self.command.wait_for(pattern, count=count)

    def asks(self) -> None:
        """Wait until it asks for a line: only then is Ctrl-C a key, for the terminal controls no process."""
        until = time.monotonic() + 60
        while termios.tcgetattr(self.keyboard)[3] & termios.ISIG:
            assert time.monotonic() < until, self.command.err
            time.sleep(0.05)

    def words(self, count: int) -> None:
        """Wait until so much of an answer is there."""
        until = time.monotonic() + 60
        while len(self.command.out) < count:
            assert time.monotonic() < until, self.command.err
            time.sleep(0.05)


@pytest.fixture
def chat(tc: Commands, tiny: Path) -> Iterator[Chat]:
    keyboard, terminal = os.openpty()
    model = ("--model", tiny, "--max-tokens", LONG, "--threads", 1, "--temperature", 0)
    command = tc.start("run", *model, stdin=terminal)
    command.wait_for("type a message")
    yield Chat(command, keyboard)
    family = command.family()
    if command.process.poll() is None:
        command.process.kill()
        command.process.wait(20)
    assert not wait_gone(family)
    os.close(keyboard)
    os.close(terminal)


def test_ctrl_c_stops_the_answer_and_a_second_one_leaves(chat: Chat, tmp_path: Path) -> None:
    chat.type("Tell me.\n")
    chat.words(20)
    chat.command.process.send_signal(signal.SIGINT)
    chat.says(r"\[stopped, first after [\d.]+ s\]")
    chat.type(f"/save {tmp_path / 'said.json'}\n")
    chat.says("2 messages in")
    chat.asks()
    kept = json.loads((tmp_path / "said.json").read_text())
    assert kept[0] == {"role": "user", "content": "Tell me."}
    assert kept[1]["role"] == "assistant"
    printed = "\n".join(chat.command.out.removesuffix("\n").splitlines())
    assert "\n".join(kept[1]["content"].splitlines()) == printed
    chat.type("\x03")
    ended = chat.command.end(20)
    assert ended.code == 130
    assert "Traceback" not in ended.err


def test_commands_answers_and_the_end(chat: Chat) -> None:
    chat.type("/system Be brief.\n")
    chat.says("system message: Be brief.")
    chat.type("/nonsense\n")
    chat.says("/nonsense is not a command")
    chat.type("\n")  # nothing to answer
    chat.type("\x04")
    assert chat.command.end(20).code == 0


def test_keys_typed_into_an_answer_are_the_next_prompt_s(chat: Chat) -> None:
    chat.type("Tell me.\n")
    chat.words(20)
    chat.type("/system Be brief.\n\x04")
    chat.command.process.send_signal(signal.SIGINT)
    chat.says("system message: Be brief.")
    assert chat.command.end(20).code == 0


def test_what_an_answer_cost_is_said(tc: Commands, tiny: Path) -> None:
    keyboard, terminal = os.openpty()
    command = tc.start("run", "--model", tiny, "--max-tokens", 5, "--threads", 1, stdin=terminal)
    command.wait_for("type a message")
    for count in (1, 2):
        os.write(keyboard, b"Hello\n")
        command.wait_for(r"\[5 tokens, cut at --max-tokens, first after [\d.]+ s, then [\d.]+ tokens/s\]", count=count)
    os.write(keyboard, b"\x04")
    assert command.end(20).code == 0
    os.close(keyboard)
    os.close(terminal)
