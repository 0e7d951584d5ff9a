"""Two conversations with clients that people use instead of OpenAI's, printed as JSON: ``others_clients.py URL NAME``.

A program of its own: what these clients import warns, and no test is to hold its settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
    "HTTPS_PROXY": "http://127.0.0.1:9",  # whoever asks anybody else fails
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}
WAY = {"temperature": 0, "max_tokens": 12}
TURNS = ["Hello", "And then?"]
PAINT = {
    "name": "paint",
    "description": "Paints a wall.",
    "parameters": {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
}
Talk = Callable[[list[Any]], tuple[str, list[str]]]


def litellm(url: str) -> Iterator[Any]:
    """Whole, streamed, a tool's call, JSON by schema, and how a mistake is told."""
    import litellm
    from litellm import completion

    litellm.telemetry = False
    ours = {"model": "openai/tiny", "api_base": url, "api_key": "none", "max_retries": 0, "num_retries": 0}

    def talk(messages: list[Any]) -> tuple[str, list[str]]:
        whole = completion(messages=messages, **ours, **WAY).choices[0].message.content
        chunks = completion(messages=messages, stream=True, **ours, **WAY)
        return whole, [chunk.choices[0].delta.content or "" for chunk in chunks]

    yield conversation(talk)
    asked = [{"role": "user", "content": "Paint it."}]
    chosen = {"type": "function", "function": {"name": "paint"}}
    tools = {"tools": [{"type": "function", "function": PAINT}], "tool_choice": chosen}
    calls = completion(messages=asked, max_tokens=100, **tools, **ours).choices[0].message.tool_calls
    yield [[call.function.name, json.loads(call.function.arguments)] for call in calls]
    schema = {"type": "json_schema", "json_schema": {"name": "paint", "schema": PAINT["parameters"], "strict": True}}
    yield json.loads(completion(messages=asked, response_format=schema, **ours).choices[0].message.content)
    try:
        completion(messages=asked, **{**ours, "model": "openai/none"})
    except litellm.NotFoundError as error:
        yield error.status_code


def langchain(url: str) -> Iterator[Any]:
    """As `litellm`."""
    import openai
    from langchain_openai import ChatOpenAI

    def model(name: str = "tiny", **more: Any) -> ChatOpenAI:
        return ChatOpenAI(model=name, base_url=url, api_key="none", max_retries=0, **{**WAY, **more})

    def talk(messages: list[Any]) -> tuple[str, list[str]]:
        return str(model().invoke(messages).content), [str(chunk.content) for chunk in model().stream(messages)]

    yield conversation(talk)
    tool = {"type": "function", "function": PAINT}
    calls = model(max_tokens=100).bind_tools([tool], tool_choice="paint").invoke("Paint it.").tool_calls
    yield [[call["name"], call["args"]] for call in calls]
    schema = {"title": "paint", **PAINT["parameters"]}
    yield model(max_tokens=100).with_structured_output(schema, method="json_schema").invoke("Paint it.")
    try:
        model("none").invoke("Hello")
    except openai.NotFoundError as error:
        yield error.status_code


def conversation(talk: Talk) -> list[Any]:
    """A system message and two turns, each asked for whole and as a stream."""
    messages: list[Any] = [{"role": "system", "content": "Be kind."}]
    told = []
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        whole, streamed = talk(messages)
        told.append([whole, "".join(streamed)])
        messages.append({"role": "assistant", "content": whole})
    return told


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    print(json.dumps(list({"litellm": litellm, "langchain": langchain}[sys.argv[2]](sys.argv[1]))))
