from __future__ import annotations

import random

import pytest

from truecluster._text.stops import StopStrings


def run(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    search, given = StopStrings(stops), ""
    for piece in pieces:
        text, stopped = search.push(piece)
        given += text
        if stopped:
            return given, True
    return given + search.finish(), False


def oracle(stops: list[str], text: str) -> tuple[str, bool]:
    """Letter by letter: the first end at which a stop string is complete, and of those the longest."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["4, 5"], ["3, ", "4", ", ", "5x"], ("3, ", True)),
        (["\n\n"], ["a\n", "\nb"], ("a", True)),
        (["abcd", "bc"], ["ab", "cd"], ("a", True)),
        (["abcd", "bc"], ["abcd"], ("a", True)),
        (["END"], ["EN"], ("EN", False)),
        (["aab"], ["aa", "ab"], ("a", True)),
        ([], ["a", "b"], ("ab", False)),
        (["x"], ["x"], ("", True)),
    ],
)
def test_the_text_ends_before_the_stop_string(stops: list[str], pieces: list[str], expected: tuple[str, bool]) -> None:
    """API-01: over several tokens, and ending inside one."""
    assert run(stops, pieces) == expected


def test_only_what_may_still_become_a_stop_string_is_held_back() -> None:
    search = StopStrings(["4, 5"])
    assert search.push("1, 4") == ("1, ", False)
    assert search.push(", ") == ("", False)
    assert search.push("6") == ("4, 6", False)


def test_the_answer_does_not_depend_on_the_pieces() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        text = "".join(draw.choices("ab", k=10))
        stops = ["".join(draw.choices("ab", k=draw.randint(2, 5))) for _ in range(draw.randint(1, 4))]
        cuts = sorted(draw.sample(range(11), 3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, 10], strict=True)]
        assert run(stops, pieces) == oracle(stops, text)
