"""The API's key, the model's names and strict fields, as typed on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import openai
import pytest
from commands import Commands, Ended


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--api-host", "0.0.0.0"], ["--api-host 0.0.0.0", "TRUECLUSTER_API_KEY", "127.0.0.1"]),
        (["--api-key", ""], ["API's key", "printable ASCII"]),
        (["--api-key", "two words"], ["API's key", "without spaces"]),
        (["--api-key", "schlüssel"], ["API's key", "printable ASCII"]),
        (["--served-model-name", " "], ["--served-model-name"]),
        (["--generation-defaults", "mine"], ["--generation-defaults 'mine'", "openai or model"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_what_cannot_be_served_is_refused(
    tc_here: Callable[..., Ended], tiny: Path, arguments: list[str], words: list[str]
) -> None:
    ended = tc_here("cluster", "--model", tiny, *arguments)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err


def test_an_api_with_a_key_and_names(tc: Commands, tc_here: Callable[..., Ended], tiny: Path) -> None:
    """Its key, from the environment, lets it be reached from other machines too."""
    names = ["--served-model-name", "gpt", "--served-model-name", "org/gpt", "--strict-fields"]
    names += ["--generation-defaults", "model"]
    served = tc.start(
        *("run", "--model", tiny, "--nodes", 1, "--serve", "--api-host", "0.0.0.0", "--api-port", 0, *names),
        env={"TRUECLUSTER_API_KEY": "k-1"},
    )
    port = int(served.wait_for(r"serving gpt on http://0\.0\.0\.0:(\d+)/v1")[1])
    url = f"http://127.0.0.1:{port}"
    served.wait_for("^ready: tiny answers")
    health = {"alive": True, "ready": True, "required": 1, "connected": 1, "stalled_seconds": None}
    assert httpx.get(f"{url}/health", timeout=60).json() == health
    for route in ("cluster", "metrics"):
        assert httpx.get(f"{url}/{route}", timeout=60).status_code == 401
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k-1", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["gpt", "org/gpt"]
        chunks = client.completions.create(model="org/gpt", prompt="Hello", max_tokens=4, stream=True)
        assert [chunk.choices[0].finish_reason for chunk in chunks][-1] in ("length", "stop")
        greedy = client.completions.create(model="gpt", prompt="Hello", temperature=0).choices[0].text
        assert (
            client.completions.create(model="gpt", prompt="Hello").choices[0].text == greedy
        )  # its author says nothing
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="tiny", prompt="Hello")
        with pytest.raises(openai.BadRequestError) as strict:
            client.completions.create(model="gpt", prompt="Hello", extra_body={"temprature": 1})
    assert strict.value.param == "temprature"
    refused = tc_here("plan", "--url", url)
    assert refused.code == 2
    assert "--api-key" in refused.err
    assert tc_here("plan", "--url", url, "--api-key", "k-1").code == 0
    assert "--api-key" in tc_here("status", "--url", url).err
    assert tc_here("status", "--url", f"127.0.0.1:{port}", "--api-key", "k-1").out.startswith("gpt: running, ")
