"""The page in a real browser, in front of an engine that says what a test tells it to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from browser import Page, chromium
from cluster_views import EMPTY, cluster_of
from selenium.webdriver import Chrome, Keys

from truecluster._engine.requests import Event, FinishedEvent, TokenEvent
from truecluster._serve import Readiness, ServeOptions
from truecluster.api import Busy

HOSTILE = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>"
TOO_WIDE = "wide" * 100


def said(text: str) -> list[Event]:
    return [*map(TokenEvent, text.encode()), FinishedEvent(reason="stop", generated=len(text) + 1)]


class Slow:
    """Says the first half, and the other one when it is allowed to."""

    def __init__(self, first: str, rest: str) -> None:
        self.first, self.rest = first, rest
        self.go_on = threading.Event()

    def __iter__(self) -> Iterator[Event]:
        yield from map(TokenEvent, self.first.encode())
        assert self.go_on.wait(60)
        yield from said(self.rest)


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def page(chrome: Chrome, running: Any) -> Iterator[Page]:
    """The page in a new tab; at the end it must have asked nobody else, and broken no policy."""
    running.state.text = attrs.evolve(running.state.text, context=2000)
    page = Page(chrome, running.url)
    page.open()
    yield page
    assert not page.strangers()
    assert not [words for words in page.complaints() if "Failed to load resource" not in words]


def test_an_answer_is_shown_as_it_comes(page: Page, running: Any) -> None:
    running.state.engine.events = slow = Slow("Hel", "lo\n\nyou")
    page.ask("hi there")
    page.wait_for(".answer", "Hel")
    assert page.find("#log").get_attribute("aria-busy") == "true"
    assert (page.find("#send").is_displayed(), page.find("#stop").is_displayed()) == (False, True)
    slow.go_on.set()
    page.finished()
    assert (page.text(".question"), page.text(".answer")) == ("hi there", "Hello\n\nyou")
    assert page.find("#send").is_displayed()
    prompt = len("user:hi there") + 1  # a token for each letter, and the one that the template ends a message with
    note = page.text(".turn .note")
    assert f"{prompt} tokens read" in note
    assert "8 written" in note  # as the engine says
    assert "tokens/s" in note
    assert page.find("#question").get_property("value") == ""


def pasted(page: Page) -> object:
    page.js("document.querySelector('#question').value = ''")
    page.find("#question").send_keys(Keys.CONTROL, "v")
    return page.find("#question").get_property("value")


@pytest.mark.parametrize("secure", [True, False])
def test_an_answer_is_copied_as_it_was_written(page: Page, running: Any, secure: bool) -> None:
    """Also over plain HTTP from another machine, where browsers have no ``navigator.clipboard``."""
    text = "look:\n```py\nx = 1\n```"
    running.state.engine.events = said(text)
    page.ask("hi")
    page.finished()
    if not secure:
        page.js("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click(".foot button")
    page.wait(lambda: pasted(page) == text)


def test_a_request_is_what_the_page_says(page: Page, running: Any) -> None:
    """System prompt, settings, and of earlier turns those that were answered."""
    page.click("#settings summary")
    page.type("#system", "Be brief.")
    page.js("document.querySelector('#temperature').value = ''")
    page.type("#temperature", "0.25")
    page.type("#max-tokens", "7")
    page.ask("one")
    page.finished()
    running.state.engine.events = [FinishedEvent(reason="error", generated=0, message="lost")]
    page.type("#question", "two\n")
    page.wait_for(".error", "the cluster failed")
    running.state.engine.events = said("Yes")
    page.type("#question", "thr" + Keys.SHIFT + Keys.ENTER + Keys.SHIFT + "ee\n")
    page.wait_for(".answer", "Yes")
    page.finished()
    first, _, third = running.state.engine.asked
    assert (first.max_tokens, first.sampling.temperature) == (7, 0.25)
    decoded = running.state.text.tokenizer.decode(list(third.prompt))
    assert decoded == "system:Be brief.user:oneassistant:Hellouser:thr\nee"


def test_stop_cancels_the_request_and_keeps_what_came(page: Page, running: Any) -> None:
    running.state.engine.events = [*map(TokenEvent, b"begun")]
    page.ask("hi")
    page.wait_for(".answer", "begun")
    page.click("#stop")
    page.finished()
    page.wait(lambda: running.state.engine.handles[0].cancelled.is_set())
    assert page.text(".answer") == "begun"
    assert page.text(".turn .note") == "stopped"
    assert not page.text(".error")


@pytest.mark.parametrize(
    ("question", "refusal", "shown"),
    [
        ("x" * 2100, None, "maximum context length is 2000 tokens"),
        ("hi", Busy("256 requests wait already", 7), "Try again in 7 s"),
    ],
)
def test_a_refusal_is_shown_in_the_servers_words(
    page: Page, running: Any, question: str, refusal: Busy | None, shown: str
) -> None:
    running.state.engine.refuse = refusal
    page.wait(lambda: page.find("#model").get_property("value"))
    page.js("document.querySelector('#question').value = arguments[0]", question)
    page.click("#send")
    page.wait_for(".turn .error", shown)
    running.state.engine.refuse = None
    if refusal:
        page.click(".again")
        page.wait_for(".answer", "Hello")
        assert not page.text(".turn .error")
        assert len(page.all(".turn")) == 1


def test_a_cluster_that_is_not_ready_says_so(page: Page, running: Any) -> None:
    running.state.readiness = Readiness(alive=True, ready=False, required=3, connected=1)
    page.ask("hi")
    page.wait_for(".turn .error", "Required nodes: 3, connected ready nodes: 1")


def test_an_answer_that_breaks_off_is_kept_with_the_reason(page: Page, running: Any) -> None:
    failure = FinishedEvent(reason="error", generated=5, message="lost")
    running.state.engine.events = [*map(TokenEvent, b"begun"), failure]
    page.ask("hi")
    page.wait_for(".turn .error", "the cluster failed while answering")
    assert page.text(".answer") == "begun"


def test_a_server_that_goes_is_told(chrome: Chrome, stoppable: Any) -> None:
    stoppable.state.engine.events = [*map(TokenEvent, b"begun")]
    page = Page(chrome, stoppable.url)
    page.open()
    page.ask("hi")
    page.wait_for(".answer", "begun")
    stoppable.stop()
    page.wait_for(".turn .error", "broke off in the middle")
    page.type("#question", "there?\n")
    page.wait_for(".turn:last-child .error", "can't be reached")
    page.wait_for("#status", "not reached")


def test_nothing_that_is_shown_is_read_as_html(page: Page, running: Any) -> None:
    """In a question, an answer, code, and the names of what joins."""
    running.state.view = cluster_of((HOSTILE, "blocks 0-3"), spare=HOSTILE)
    running.state.engine.events = said(f"{HOSTILE}\n```html\n{HOSTILE}\n```\n{HOSTILE}")
    page.ask(HOSTILE)
    page.wait_for(".answer pre", HOSTILE)
    page.finished()
    assert page.text(".question") == HOSTILE
    assert page.text(".answer p") == f"{HOSTILE}\n{HOSTILE}"
    page.wait_for(".nodes", HOSTILE)
    assert not page.all("#log img, #log script, #cluster img, #cluster script")
    assert page.js("return window.hurt") is None


def test_a_reload_keeps_the_chat_and_a_new_one_forgets_it(page: Page, running: Any) -> None:
    page.click("#settings summary")
    page.type("#system", "Be brief.")
    page.js("document.querySelector('#model').value = 'tiny'")
    page.ask("first")
    page.finished()
    running.state.engine.events = [*map(TokenEvent, b"begun")]
    page.type("#question", "second\n")
    page.wait_for(".answer", "begun")
    page.browser.refresh()
    page.wait(lambda: page.find("#model").get_property("value") == "tiny")
    assert page.text(".question") == "first\nsecond"
    assert page.text(".answer") == "Hello\nbegun"
    assert page.text(".turn:last-child .note") == "stopped"
    assert page.find("#system").get_property("value") == "Be brief."
    page.click("#new")
    assert not page.all(".turn")
    page.browser.refresh()
    page.wait(lambda: page.find("#empty").is_displayed())
    assert not page.all(".turn")


def test_the_key_is_asked_for_and_kept_for_the_tab_alone(chrome: Chrome, start: Any) -> None:
    with start(ServeOptions(api_key="secret-1")) as server:
        page = Page(chrome, server.url)
        page.open()
        page.wait(lambda: page.find("#key").is_displayed())
        page.click("#key-cancel")
        page.wait_for("#trouble", "needs its API key")
        page.wait_for("#status", "no key")
        page.click("#trouble button")
        page.type("#key", "wrong\n")
        page.wait_for("#key-words", "didn't take the key")
        page.wait(lambda: page.find("#key").is_displayed())
        page.type("#key", "secret-1\n")
        page.ask("hi")
        page.wait_for(".answer", "Hello")
        assert not page.text("#trouble")
        page.browser.refresh()
        page.ask("hi")
        page.wait_for(".turn:last-child .answer", "Hello")
        assert page.js("return localStorage.length") == 0
        assert page.js("return document.cookie") == ""
        assert page.js("return Object.values(sessionStorage)").count("secret-1") == 1


def test_the_cluster_is_shown_and_read_again(page: Page, running: Any) -> None:
    page.wait_for("#status", "waiting · 0 nodes")
    page.wait_for("#cluster", "No node has joined yet")
    spans = [("here", "embed"), ("b", "blocks 3-7"), ("a", "blocks 0-2"), ("here", "head")]
    running.state.view = cluster_of(
        *spans,
        spare="c",
        requests={"waiting": 3, "running": 8},
        tokens={"generated": 1_234_567, "generated_per_second": 41.26},
        pages={"held": 30, "total": 40},
        edges=[
            {"from": "here", "to": "b", "route": "relayed", "transport": "tcp", "dtype": "fp16", "bytes": 1_500_000}
        ],
        faults=[{"message": "it burns", "count": 2, "seconds_ago": 3_700.0}],
        progress=[{"task": "weights to c", "done": 250_000, "total": 1_000_000}],
        steps={"stalled_seconds": 12.3},
        uptime_seconds=90_000.0,
    )
    page.wait_for("#status", "ready · 4 nodes")
    assert page.text(".layers li") == "embed\n0-2\n3-7\nhead"
    widths = [part.size["width"] for part in page.all(".layers li")]
    assert widths[2] > widths[1]
    colours = [part.value_of_css_property("background-color") for part in page.all(".layers li")]
    assert colours[0] == colours[3]
    assert len(set(colours)) == 3
    assert page.text(".nodes strong") == "here\nb\na\nc"
    assert "embed, head40 % busy" in page.text(".nodes li")
    assert page.text(".nodes li").endswith("hosts nothingspare")
    assert page.text("dd") == "41.3\n8\n3\n75 %"
    assert "here → brelayed · 1.5 MB" in page.text("#cluster")
    assert "it burns1 h 1 min ago, 2 times" in page.text("#cluster")
    assert "No step was answered for 12 s" in page.text("#cluster .error")
    assert "weights to c250 kB of 1.0 MB" in page.text("#cluster")
    assert "4,096 tokens of context · 1,234,567 tokens written · up 1 d 1 h" in page.text("#cluster")


@pytest.mark.parametrize(
    ("state", "word"), [("packing", "packing"), ("provisioning", "loading"), ("faulted", "failed"), ("done", "waiting")]
)
def test_what_the_cluster_does_is_said(page: Page, running: Any, state: str, word: str) -> None:
    running.state.view = {**EMPTY, "state": state}
    page.wait_for("#status", f"{word} · 0 nodes")


COUNT = """
window.asked = 0;
const ask = window.fetch;
window.fetch = (...what) => (window.asked++, ask(...what));
Object.defineProperty(document, "hidden", { get: () => window.away });
"""


def test_a_page_that_nobody_sees_asks_nothing(page: Page) -> None:
    page.js(COUNT)
    page.wait(lambda: page.js("return window.asked") > 2)
    before = page.js("window.away = true; return window.asked")
    page.browser.execute_async_script("setTimeout(arguments[0], 10000)")
    assert page.js("return window.asked") == before
    page.js("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    assert page.js("return window.asked") > before


def test_a_small_screen_shows_all_of_it(page: Page, running: Any) -> None:
    page.resize(390, 844)
    running.state.view = cluster_of((TOO_WIDE, "blocks 0-3"), spare="c")
    running.state.engine.events = said(f"{TOO_WIDE}\n```\n{TOO_WIDE}\n```")
    page.ask(TOO_WIDE)
    page.wait_for(".answer pre", TOO_WIDE)
    page.finished()
    page.click("#settings summary")
    too_wide = "return [document.documentElement, log, settings].some((each) => each.scrollWidth > each.clientWidth)"
    assert not page.js(too_wide)
    assert page.find("#question").is_displayed()
    page.click("#status")
    page.wait_for(".nodes", TOO_WIDE)
    assert page.find("#cluster").is_displayed()
    assert not page.find("#question").is_displayed()
    assert not page.js("return [document.documentElement, cluster].some((each) => each.scrollWidth > each.clientWidth)")
    assert page.find(".layers").size["height"] > 10


def test_everything_has_a_name_and_can_be_reached_by_keys(page: Page) -> None:
    page.ask("hi")
    page.finished()
    page.click("#settings summary")
    shown = [each for each in page.all("button, input, select, textarea, summary") if each.is_displayed()]
    assert len(shown) >= 9
    assert all(each.accessible_name for each in shown)
    reached = set()
    for _ in range(30):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        here = page.browser.switch_to.active_element
        reached.add(here.id)
        if here.tag_name != "body":
            assert here.value_of_css_property("outline-style") == "solid"
    assert {each.id for each in shown} <= reached


EVENTS = """
const [text, size, done] = arguments;
import("/page/sse.js").then(async ({ events }) => {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  const stream = new ReadableStream({ pull(controller) {
    if (at < bytes.length) controller.enqueue(bytes.slice(at, at += size));
    else controller.close();
  } });
  const found = [];
  for await (const data of events(stream)) found.push(data);
  done(found);
});
"""


def test_events_are_read_wherever_they_are_cut(page: Page) -> None:
    """The HTML standard, 9.2.6: comments, other fields, lines of data, one space less, and an event without an end."""
    lines = [
        ": hello",
        "",
        "data: äöü€😀",
        "",
        "event: x",
        "data:a",
        "data:  b",
        "id: 1",
        "",
        "",
        "data",
        "",
        "data: c",
    ]
    for end in ("\n", "\r\n", "\r"):
        for size in (1, 2, 3, 5, 1000):
            found = page.browser.execute_async_script(EVENTS, end.join(lines), size)
            assert found == ["äöü€😀", "a\n b", ""], (end, size)


PIECES = "const [text, done] = arguments; import('/page/text.js').then(({ pieces }) => done(pieces(text)))"


TEXTS = {
    "": [],
    "  a\n\nb  ": [(False, "a\n\nb")],
    "a\n```py\n x\n\ny\n```\nb": [(False, "a"), (True, " x\n\ny"), (False, "b")],
    "```\nopen": [(True, "open")],
    "```": [(True, "")],
    "say ```x``` so\n```x``` so": [(False, "say ```x``` so\n```x``` so")],
    "```\n```js\n```": [(True, "```js")],
}


def test_code_between_fences_stands_apart(page: Page) -> None:
    """CommonMark 0.31, 4.5: the line that opens may say a language, the one that closes may not."""
    for text, expected in TEXTS.items():
        found = page.browser.execute_async_script(PIECES, text)
        assert [(piece["code"], piece["text"]) for piece in found] == expected
