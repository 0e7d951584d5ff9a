"""Model files as they shouldn't be, and what a process holds of files: for the contract of checkpoints."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

MASKS = (0x01, 0x04, 0x80, 0xFF)
"""What a byte is changed with: a neighbour, another digit, another sign, all of it."""
HUGE = (b"\xff\xff\xff\x0f", b"\xff" * 8, b"99999999")
"""Numbers without sense, in bytes of either order and in text."""


def replace(file: Path, content: bytes) -> None:
    """Another file of that name, so that a mapping of the one before stays whole."""
    file.unlink()
    file.write_bytes(content)


def places(size: int, cuts: int) -> list[int]:
    """The first places of a file, where headers are; ``cuts`` all over it; the last one."""
    return sorted({*range(min(2 * cuts, size)), *range(0, size, max(1, size // max(1, cuts))), size - 1})


def changed_bytes(content: bytes, cuts: int) -> Iterator[tuple[int, bytes]]:
    """Place and content, for a byte changed in any way at any of the `places`."""
    for place in places(len(content), cuts):
        for mask in MASKS:
            yield place, content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def huge_numbers(content: bytes, cuts: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Place, number and content, for a huge number written at any of the `places`."""
    for place in places(len(content), cuts):
        for number in HUGE:
            yield place, number, content[:place] + number + content[place + len(number) :]


def held(folder: Path) -> list[str]:
    """The files below ``folder`` that this process has open or mapped. Linux only."""
    descriptors = Path("/proc/self/fd")
    opened = {_target(descriptors / number) for number in os.listdir(descriptors)}
    mapped = {line.partition("/")[2] for line in Path("/proc/self/maps").read_text().splitlines()}
    found = opened | {f"/{path}".removesuffix(" (deleted)") for path in mapped}
    return sorted(path for path in found if Path(path).is_relative_to(folder.resolve()))


def _target(link: Path) -> str:
    try:
        return os.readlink(link).removesuffix(" (deleted)")
    except OSError:  # the descriptor of the listing itself
        return ""


def is_mapped(file: Path, address: int) -> bool:
    """Whether a mapping of ``file`` lies at the address. Linux only."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(file.resolve())):
            start, _, stop = line.split()[0].partition("-")
            if int(start, 16) <= address < int(stop, 16):
                return True
    return False


def outcome(call: Callable[[], object], pipe: Path, patience: float) -> object:
    """What a call raises or returns; None where it still waits for a writer of ``pipe`` after that many seconds."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience)
    if not thread.is_alive():
        return found[0]
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # ends the wait
    thread.join(patience)
    return None
