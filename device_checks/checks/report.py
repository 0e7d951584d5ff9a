"""The report, as markdown to paste into docs/devices.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from truecluster._wire.messages import Hello
from truecluster.api import DeviceInfo

from .compare import Outcome


@attrs.frozen(kw_only=True)
class Findings:
    """Everything that was found. ``golden`` of the reference's decidable tokens are transformers' own.

    ``generated``: over which nodes an answer was decoded freely, and how many tokens it has.
    """

    model: str
    weights: str
    nodes: Sequence[Hello]
    golden: tuple[int, int]
    outcomes: Sequence[Outcome]
    generated: tuple[Sequence[str], int]

    @property
    def good(self) -> bool:
        return all(outcome.good for outcome in self.outcomes)


def markdown(findings: Findings) -> str:
    """Lines of at most one table row each."""
    same, of = findings.golden
    lines = [
        f"### {findings.model}, weights {findings.weights}",
        "",
        *_table(("node", "device", "memory free", "computes in", "software"), map(_node, findings.nodes)),
        "",
        f"The reference (fp32 on the coordinator's processor) picks {same} of {of} decidable golden tokens.",
        "",
        *_table(
            ("over", "edges", "tokens as the reference", "error of the logits", "allowed", "result"),
            map(_outcome, findings.outcomes),
        ),
        "",
        f"Generation over {' → '.join(findings.generated[0])} completes with {findings.generated[1]} tokens.",
    ]
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)]


def _node(hello: Hello) -> tuple[str, ...]:
    device = next(each for each in hello.devices if each.id == hello.selected_device)
    dtypes = ", ".join(dtypes.compute.value for dtypes in hello.dtypes)
    software = f"torch {hello.torch_version}, Python {hello.python_version}, {hello.platform}"
    return hello.node_id, f"{device.kind}: {device.name}", _free(device), dtypes, software


def _free(device: DeviceInfo) -> str:
    return "unknown" if device.free is None else f"{device.free / 1e9:.1f} GB"


def _outcome(outcome: Outcome) -> tuple[str, ...]:
    return (
        " → ".join(outcome.stages),
        " ".join(outcome.edges),
        f"{outcome.equal} of {outcome.decidable}",
        f"{100 * outcome.error:.2g} %",
        f"{100 * outcome.allowed:.2g} %",
        "as it should" if outcome.good else "**WRONG**",
    )
