"""Ctrl-C and SIGTERM are held back, told once, and raised where a block ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import anyio
import pytest

from truecluster._cli.endings import SIGNALS, Endings
from truecluster._cli.running import run

BOTH = pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["int", "term"]
)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests come back, whatever a command has left."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def command(body: Callable[[Endings], object]) -> None:
    """One whose body may be told to end."""
    with Endings() as endings:
        body(endings)


def signals(*numbers: int) -> None:
    for number in numbers:
        signal.raise_signal(number)


def test_a_block_without_a_signal_leaves_no_trace() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    inside: list[object] = []
    command(lambda endings: inside.extend(signal.getsignal(number) for number in SIGNALS))
    assert not set(inside) & set(before)
    assert [signal.getsignal(number) for number in SIGNALS] == before


@BOTH
def test_a_signal_is_raised_when_the_block_has_ended(number: int, raised: type[BaseException]) -> None:
    done = []

    def body(endings: Endings) -> None:
        signals(number)
        done.append("an import")

    with pytest.raises(raised) as ended:
        command(body)
    assert done
    assert getattr(ended.value, "code", 143) == 143
    signals(*SIGNALS)  # too late to tear anything apart


def test_an_error_of_the_block_is_told_instead() -> None:
    def body(endings: Endings) -> None:
        signals(signal.SIGINT)
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        command(body)


@pytest.mark.parametrize("early", [True, False])
def test_who_wants_to_know_is_told_once(early: bool) -> None:
    told = []

    def body(endings: Endings) -> None:
        signals(*[signal.SIGINT] * early)
        with endings.telling(lambda: told.append(endings.received)):
            signals(*[signal.SIGINT] * 3)

    with pytest.raises(KeyboardInterrupt):
        command(body)
    assert told == [signal.SIGINT]


@BOTH
@pytest.mark.parametrize("early", [True, False])
def test_what_runs_is_cancelled_and_cleans_up(number: int, raised: type[BaseException], early: bool) -> None:
    cleaned = []

    async def main(name: str) -> None:
        signals(*[number] * (not early))
        try:
            await anyio.sleep_forever()
        finally:
            signals(signal.SIGINT)  # is too late, too
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            cleaned.append(name)

    def body(endings: Endings) -> None:
        signals(*[number] * early)
        run(endings, main, "up")

    with pytest.raises(raised):
        command(body)
    assert cleaned == ["up"]


def test_a_signal_after_the_loop_has_ended_is_not_lost() -> None:
    results = []

    async def main() -> int:
        return 7

    def body(endings: Endings) -> None:
        results.append(run(endings, main))
        signals(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        command(body)
    assert results == [7]
