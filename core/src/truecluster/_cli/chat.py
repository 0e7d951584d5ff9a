"""A chat at a terminal: what is said in it, its commands, and Ctrl-C, which stops an answer and then the chat."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path

import anyio
import attrs
from anyio.to_thread import run_sync
from prompt_toolkit import PromptSession
from prompt_toolkit.output import create_output

from truecluster._text import TextDelta, TextFinished, astream
from truecluster.api import RequestError

from .asking import request_of
from .hosting import Hosted
from .options import Asking, say

HELP = """\
/system TEXT   the system message from now on; without a text, shows it
/reset         forget what was said
/save FILE     write what was said as JSON, as the API takes it for "messages"
/help          this
Ctrl-C stops an answer; without one it ends the chat, as Ctrl-D does. A message may begin with a blank and /."""


@attrs.define
class Conversation:
    """What was said, as OpenAI's messages. ``raw``: every line is completed by itself, and nothing is kept."""

    system: str | None = None
    raw: bool = False
    said: list[dict[str, str]] = attrs.field(factory=list)

    @property
    def messages(self) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.system}] if self.system is not None else []
        return [*system, *self.said]

    def with_line(self, line: str) -> list[dict[str, str]]:
        """The messages that ``line`` asks to be answered."""
        return [*self.messages, {"role": "user", "content": line}]

    def add(self, line: str, answer: str) -> None:
        """Keep a line and its answer."""
        if not self.raw:
            self.said += {"role": "user", "content": line}, {"role": "assistant", "content": answer}

    def obey(self, command: str) -> str:
        """Do what a line that begins with ``/`` says; returns what to tell. Raises `RequestError`."""
        name, _, text = command.partition(" ")
        commands: dict[str, Callable[[str], str]] = {
            "/system": self._system,
            "/reset": self._reset,
            "/save": self._save,
            "/help": lambda text: HELP,
        }
        if name not in commands:
            raise RequestError(f"{name} is not a command; there are {', '.join(commands)}")
        return commands[name](text.strip())

    def _system(self, text: str) -> str:
        if self.raw:
            raise RequestError("--raw has no chat template to put a system message in; start again without it")
        self.system = text or self.system
        return f"system message: {self.system}" if self.system else "there is no system message; /system TEXT sets one"

    def _reset(self, text: str) -> str:
        self.said.clear()
        return "forgotten"

    def _save(self, text: str) -> str:
        if not text:
            raise RequestError("/save needs the name of a file")
        path = Path(text).expanduser()
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(self.messages, file, ensure_ascii=False, indent=2)
        except FileExistsError:
            raise RequestError(f"{path} exists already; give another name") from None
        except OSError as error:
            raise RequestError(f"{path} can't be written: {error.strerror}") from None
        return f"{len(self.messages)} messages in {path}"


async def talk(hosted: Hosted, asking: Asking) -> None:
    """Answer what is typed until the input ends."""
    conversation = Conversation(system=asking.system, raw=asking.raw)
    session: PromptSession[str] = PromptSession(output=create_output(stdout=sys.stderr))
    with _keys_kept(sys.stdin.fileno()):
        await run_sync(hosted.wait_ready, abandon_on_cancel=True)
        say("type a message; /help tells more, Ctrl-D ends the chat")
        while (line := await _read(session, hosted)) is not None:
            await _heed(hosted, asking, conversation, line)


async def _heed(hosted: Hosted, asking: Asking, conversation: Conversation, line: str) -> None:
    """Obey what was typed, or answer it; where that can't be done, say why."""
    try:
        if line.startswith("/"):
            say(conversation.obey(line.rstrip()))
        elif line.strip():
            await _answer(hosted, asking, conversation, line.strip())
    except RequestError as error:
        say(str(error))


@contextmanager
def _keys_kept(terminal: int) -> Generator[None, None, None]:
    """What is typed while nothing is asked for waits for the next prompt, keys that mean something included.

    As it is otherwise, a terminal makes lines of it then, and of Ctrl-D a NUL, which the prompt takes for another key.
    """
    if sys.platform == "win32":  # its console has no such mode
        yield
        return
    import termios

    before = termios.tcgetattr(terminal)
    now = termios.tcgetattr(terminal)
    now[3] &= ~(termios.ICANON | termios.ECHO)
    now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSANOW, now)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


async def _read(session: PromptSession[str], hosted: Hosted) -> str | None:
    """What the user types, ``None`` at the end; waits only as long as there is somebody to answer."""
    line: str | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hosted.failed)
        try:
            line = await session.prompt_async("> ")
        except EOFError:
            pass
        except KeyboardInterrupt:  # the terminal's, which is raw and sends no signal
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep_forever()
        tasks.cancel_scope.cancel()
    return line


async def _answer(hosted: Hosted, asking: Asking, conversation: Conversation, line: str) -> None:
    """Print the answer as it comes, and what it cost. Keeps what was said, also of an answer that was stopped."""
    messages = conversation.with_line(line)
    request = await run_sync(request_of, hosted.model, hosted.text, asking, messages, line)
    cost, text, finished = Cost(), "", None
    with anyio.CancelScope() as scope, _interrupts(scope.cancel):
        async with aclosing(astream(hosted.engine, [request])) as events:
            async for _, event in events:
                if isinstance(event, TextDelta):
                    cost.more()
                    text += event.text
                    print(event.text, end="", flush=True)
                elif isinstance(event, TextFinished):
                    finished = event
    print(flush=True)
    if finished is not None and finished.reason == "error":
        raise RequestError(f"{finished.message}; /reset forgets what was said")
    conversation.add(line, text)
    say(cost.line(finished))


@attrs.define
class Cost:
    """Of one answer: times on the monotonic clock in seconds."""

    begun: float = attrs.field(factory=time.monotonic)
    first: float = 0.0

    def more(self) -> None:
        """Text has come."""
        self.first = self.first or time.monotonic()

    def line(self, finished: TextFinished | None) -> str:
        """For the user; without an end the answer was stopped."""
        after = f"first after {self.first - self.begun:.2f} s" if self.first else "no text"
        if finished is None:
            return f"[stopped, {after}]"
        length = ", cut at --max-tokens" if finished.reason == "length" else ""
        took, rest = time.monotonic() - (self.first or self.begun), finished.generated - 1
        speed = f", then {rest / took:.1f} tokens/s" if rest > 0 and self.first and took > 0 else ""
        return f"[{finished.generated} tokens{length}, {after}{speed}]"


@contextmanager
def _interrupts(call: Callable[[], object]) -> Generator[None, None, None]:
    """Ctrl-C makes ``call`` on the event loop instead of ending the command."""
    import asyncio

    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda number, frame: loop.call_soon_threadsafe(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
