"""What every refusal of a user's mistake looks like."""

from __future__ import annotations

from commands import Ended


def refused(ended: Ended, *words: str) -> None:
    """One line that says all of ``words``, before any weight is touched."""
    assert ended.code == 2, ended.err
    assert ended.out == ""
    last = ended.err.splitlines()[-1]
    assert last.startswith("tc: "), ended.err
    for word in words:
        assert word in last
    assert "Traceback" not in ended.err
    assert "packing" not in ended.err
