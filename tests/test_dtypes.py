"""Unlike devices in one run, over real processes: processors, of which some say that they compute in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from anyio.from_thread import start_blocking_portal
from checks.cluster import Chosen, force
from checks.goldens import Case
from checks.hosting import Place, hosted
from commands import KEY, Commands, Ended
from tiny_checkpoints import tensors, write_tiny

from truecluster._cluster.model import ModelOptions, load_model
from truecluster._registry import Registry
from truecluster.api import DType

HALVES = {"PYTHONPATH": str(Path(__file__).parent / "plugins")}
PROMPT = tuple(b"What flows between unlike machines?")
ANSWER = tuple(b"hidden rows")
CASE = Case(ids=PROMPT, greedy=ANSWER, margins=(1.0,) * len(ANSWER))
ROUNDOFF = {DType.FP32: 2.0**-24, DType.FP16: 2.0**-11, DType.BF16: 2.0**-8}
ROUNDINGS = 12
"""Errors of independent roundings on a token's way through four blocks add up to about so many of one."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Chosen]:
    """Two nodes with fp16, one with bf16, and a plain processor; the ends are on a processor."""
    with Commands(tmp_path_factory.mktemp("devices")) as tc, start_blocking_portal() as portal:
        registry = Registry.installed()
        model = load_model(registry, ModelOptions(reference=str(tiny), work_dir=tc.folder / "work"))

        def told(address: tuple[str, int]) -> None:
            for name, dtype in (("a", "fp16"), ("b", "fp16"), ("c", "bf16")):
                tc.node(address[1], name, "--device", "half", env={**HALVES, "TCPLUG_HALVES": dtype})
            tc.node(address[1], "d")

        place = Place(host="127.0.0.1", port=0, key=KEY, nodes=4, wait=60, told=told)
        with portal.wrap_async_context_manager(hosted(registry, model, place)) as coordinator:
            yield coordinator


def logits(made: Chosen, nodes: str, dtype: DType) -> tuple[torch.Tensor, list[str], list[str]]:
    """Of the answer's tokens, over the nodes of one letter each; what each computes in, and what its edges carry."""
    with made.over(list(nodes), dtype) as (run, heard):
        force(run, [CASE])
        stages = [stage.dtypes.compute.value for stage in run.plan.stages[1:-1]]
        return torch.cat(heard), stages, [edge.dtype.value for edge in run.plan.edges[1:-1]]


@pytest.fixture(scope="module")
def expected(tiny: Path) -> torch.Tensor:
    """What transformers computes in fp64."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float64)
    with torch.inference_mode():
        return model(torch.tensor([CASE.fed])).logits[0, -len(ANSWER) :]


@pytest.mark.parametrize(
    ("nodes", "dtype", "computes", "edges"),
    [
        ("a", DType.FP16, ["fp16"], ["fp32", "fp32"]),
        ("c", DType.BF16, ["bf16"], ["fp32", "fp32"]),
        ("d", DType.FP16, ["fp32"], ["fp32", "fp32"]),
        ("ab", DType.FP16, ["fp16", "fp16"], ["fp32", "fp16", "fp32"]),
        ("ad", DType.FP16, ["fp16", "fp32"], ["fp32", "fp32", "fp32"]),
        ("da", DType.FP16, ["fp32", "fp16"], ["fp32", "fp32", "fp32"]),
        ("ac", DType.BF16, ["fp32", "bf16"], ["fp32", "fp32", "fp32"]),
        ("ca", DType.BF16, ["bf16", "fp32"], ["fp32", "fp32", "fp32"]),
        ("abcd", DType.FP16, ["fp16", "fp16", "fp32", "fp32"], ["fp32", "fp16", "fp32", "fp32", "fp32"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unlike_devices_agree_with_transformers(
    made: Chosen, expected: torch.Tensor, nodes: str, dtype: DType, computes: list[str], edges: list[str]
) -> None:
    found, stages, carried = logits(made, nodes, dtype)
    assert (stages, carried) == (computes, edges)
    error = float((found.double() - expected).norm() / expected.norm())
    assert error < ROUNDINGS * max(ROUNDOFF[DType(name)] for name in computes)


@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16])
def test_a_split_between_like_devices_changes_no_bits(made: Chosen, dtype: DType) -> None:
    """NUM-06."""
    whole, split = logits(made, "a", dtype)[0], logits(made, "ab", dtype)[0]
    assert torch.equal(whole, split)


def test_half_precision_is_not_computed_on_a_processor_whatever_is_asked(made: Chosen) -> None:
    """LOAD-06: the same bits as in fp32."""
    plain = logits(made, "d", DType.FP32)[0]
    assert torch.equal(logits(made, "d", DType.FP16)[0], plain)
    assert torch.equal(logits(made, "d", DType.BF16)[0], plain)


def test_run_names_the_three_dtypes(tc: Commands, tiny: Path) -> None:
    arguments = ("run", "--model", tiny, "--nodes", 1, "--max-tokens", 2, "--json", "Hello")
    ended = tc.run(*arguments, "--dtype", "bf16", "--device", "half", env={**HALVES, "TCPLUG_HALVES": "bf16"})
    assert ended.code == 0, ended.err
    assert "weights fp16, compute bf16 (fp32 on devices without it)" in ended.err
    assert "worker-1: blocks 0-3 in bf16" in ended.err
    assert '"compute_dtype": "bf16", "residual_dtype": "bf16"' in ended.out


def test_a_cluster_computes_in_what_is_typed_where_its_nodes_have_it(tc: Commands, tiny: Path) -> None:
    cluster, _, port = tc.cluster(tiny, "--max-nodes", 2, "--dtype", "fp16")
    tc.node(port, "plain")
    tc.node(port, "half", "--device", "half", env=HALVES)
    cluster.wait_for("^half: blocks .* in fp16, weights")
    cluster.wait_for("^plain: blocks .* in fp32, weights")


@pytest.mark.parametrize("command", [("run",), ("cluster",), ("plan", "--node", "cpu")], ids=lambda words: words[0])
def test_a_dtype_that_is_not_known(tc_here: Callable[..., Ended], tiny: Path, command: tuple[str, ...]) -> None:
    ended = tc_here(*command, "--model", tiny, "--dtype", "fp8")
    assert ended.code == 2
    assert "--dtype 'fp8' is not known; choose auto, fp16, bf16, fp32" in ended.err


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bf16 model with a weight that fp16 can't hold."""
    weights: dict[str, Any] = {name: tensor.bfloat16() for name, tensor in tensors().items()}
    weights["model.layers.2.mlp.down_proj.weight"][3, 5] = 1e5
    return write_tiny(tmp_path_factory.mktemp("models") / "huge", weights, torch_dtype="bfloat16")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--dtype", "fp16"), "model.layers.2.mlp.down_proj.weight: 1 of 6144 values are too large for fp16"),
        (("--dtype", "fp16", "--quant", "bf16"), "block.2.down holds 99840, and fp16 ends at 65504"),
    ],
    ids=["packed", "computed"],
)
def test_a_weight_that_overflows_is_named(tc: Commands, huge: Path, options: tuple[str, ...], words: str) -> None:
    """LOAD-06: by the checkpoint's name where it is packed, by the slot's where it is only computed in fp16."""
    ended = tc.run("run", "--model", huge, "--nodes", 1, "--device", "half", *options, "Hello", env=HALVES)
    assert ended.code in (1, 2)
    assert words in ended.err


def test_a_bf16_model_stays_bf16_where_nothing_is_typed(tc: Commands, huge: Path) -> None:
    """LOAD-06: on a device that has fp16 and no bf16, it is computed in fp32."""
    ended = tc.run("run", "--model", huge, "--nodes", 1, "--device", "half", "--max-tokens", 1, "Hello", env=HALVES)
    assert ended.code == 0, ended.err
    assert "weights bf16, compute bf16" in ended.err
    assert "blocks 0-3 in fp32" in ended.err
