"""The page at ``/`` in a real browser, in front of real nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browser import Page, chromium
from commands import Served


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, served: Served) -> Iterator[Page]:
    """Opened as the command says, and at the end found to have asked nobody else and broken no policy."""
    url = served.cluster.wait_for(r"open (http://127\.0\.0\.1:\d+)/ in a browser")[1]
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        page = Page(browser, url)
        page.open()
        yield page
        assert not page.strangers()
        assert not page.complaints()


def test_both_nodes_are_there_with_their_layers(page: Page) -> None:
    page.wait_for("#status", "2 nodes")
    page.wait(lambda: len(page.all(".layers li")) == 4)
    assert page.text(".layers li") == "embed\n0-1\n2-3\nhead"
    assert set(page.text(".nodes strong").split()) == {"coordinator", "a", "b"}
    assert re.search(r"\d MB", page.text(".nodes"))


def test_nodes_answer_stop_and_answer_again(page: Page, served: Served) -> None:
    page.click("#settings summary")
    page.js("document.querySelector('#temperature').value = ''")
    page.type("#temperature", "0")
    page.type("#max-tokens", "12")
    page.ask("Hello")
    page.finished()
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 12}
    answer = served.post("chat/completions", **body).json()
    shown = page.js("return JSON.parse(sessionStorage.getItem('truecluster.chat')).turns[0].answer")
    assert shown == answer["choices"][0]["message"]["content"]
    assert f"{answer['usage']['prompt_tokens']} tokens read" in page.text(".turn .note")
    page.js("document.querySelector('#max-tokens').value = ''")
    page.type("#question", "And on, and on\n")
    page.wait(lambda: page.text(".turn:last-child .answer"))
    page.click("#stop")
    page.finished()
    assert page.text(".turn:last-child .note") == "stopped"
    page.click("#new")
    page.type("#max-tokens", "12")
    page.ask("Hello")
    page.finished()
    assert page.js("return JSON.parse(sessionStorage.getItem('truecluster.chat')).turns[0].answer") == shown
