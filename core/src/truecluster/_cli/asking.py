"""Asking a hosted model for one answer."""

from __future__ import annotations

import json
import time
from typing import Any

import attrs

from truecluster._cluster.model import ClusterModel
from truecluster._text import GenerationDefaults, TextDelta, TextFinished, TextModel, TextOptions, TextRequest, stream
from truecluster.api import NodeError

from .hosting import Hosted
from .options import Asking, say
from .output import print_json


def ask(hosted: Hosted, asking: Asking, prompt: str, started: float) -> None:
    """Print the answer to one prompt; ``started`` is when the command was. Blocking."""
    request = request_of(hosted.model, hosted.text, asking, messages_of(asking, prompt), prompt)
    text, finished, first = "", None, 0.0
    hosted.wait_ready()
    loaded = time.monotonic()
    for event in stream(hosted.engine, request):
        if isinstance(event, TextDelta):
            first = first or time.monotonic()
            text += event.text
            if not asking.as_json:
                print(event.text, end="", flush=True)
        elif isinstance(event, TextFinished):
            finished = event
    assert finished is not None
    if finished.reason == "error":
        raise NodeError(finished.message or "the run failed")
    if asking.as_json:
        times = Times(started=started, loaded=loaded, first=first, ended=time.monotonic())
        print_json(json.dumps(_answer(hosted, request, finished, text, times), ensure_ascii=False))
    else:
        print()


@attrs.frozen(kw_only=True)
class Times:
    """Of one answer, on the monotonic clock in seconds; ``first`` is 0 where no text came."""

    started: float
    loaded: float
    first: float
    ended: float

    def timings(self, tokens: int) -> dict[str, float | None]:
        """As ``--json`` prints them: seconds to load, to the first token, and per token after it."""
        rest = (self.ended - self.first) / (tokens - 1) if tokens > 1 and self.first else None
        return {
            "load_s": round(self.loaded - self.started, 3),
            "ttft_s": round(self.first - self.loaded, 3) if self.first else None,
            "tpot_s": None if rest is None else round(rest, 5),
        }


def _answer(hosted: Hosted, request: TextRequest, finished: TextFinished, text: str, times: Times) -> dict[str, Any]:
    return {
        "text": text,
        "token_ids": list(finished.ids),
        "finish_reason": finished.reason,
        "usage": _usage(len(request.tokens.prompt), finished.generated),
        "plan": hosted.coordinator.report(),
        "timings": times.timings(finished.generated),
    }


def _usage(prompt: int, generated: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


def messages_of(asking: Asking, prompt: str) -> list[dict[str, str]]:
    """The chat that a prompt is."""
    system = [{"role": "system", "content": asking.system}] if asking.system is not None else []
    return [*system, {"role": "user", "content": prompt}]


def request_of(
    model: ClusterModel, text: TextModel, asking: Asking, messages: list[dict[str, str]], prompt: str
) -> TextRequest:
    """Raises `RequestError` for what can't be asked of the model."""
    options = options_of(model, asking)
    return text.prepare_completion(prompt, options) if asking.raw else text.prepare_chat(messages, options)


def say_ignored(model: ClusterModel) -> None:
    """A line where the model's author samples in ways that aren't honoured."""
    ignored = GenerationDefaults.of(model.bound.checkpoint.generation).ignored
    if ignored:
        say(f"the model's own generation defaults also set {', '.join(ignored)}, which isn't honoured")


def options_of(model: ClusterModel, asking: Asking) -> TextOptions:
    """What was typed, else the model's generation defaults, else greedy. Raises `RequestError`."""
    own = GenerationDefaults.of(model.bound.checkpoint.generation).sampling
    sampling = attrs.evolve(own, **{name: value for name, value in asking.sampling.items() if value is not None})
    return TextOptions(max_tokens=asking.max_tokens, stop=asking.stop, sampling=sampling)
