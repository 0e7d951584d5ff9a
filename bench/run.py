"""Measure what TrueCluster promises: a table, and JSON with every sample.

python bench/run.py [ROW ...] [--runs N] [--threads N] [--json FILE] [--list]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from load.target import Unfit
from rows import cli, groups, kernels, kit, memory, policies, push, rates, roofline, serve, split, steps, waits
from tools.figures import Figure, Settings, Skip
from tools.processes import end_children_when_told

Row = Callable[[Settings], Iterator[Figure]]

ROWS: dict[str, Row] = {
    "roofline": roofline.roofline,
    "cli": cli.cli,
    "cli-hundred": cli.cli_hundred,
    "kit": kit.kit,
    "hops": split.hops,
    "step": steps.steps,
    "split-fp16": split.split_fp16,
    "split-int4": split.split_int4,
    "push": push.push,
    "memory-smollm2": memory.memory_smollm2,
    "memory-qwen": memory.memory_qwen,
    "memory-nodes": memory.memory_nodes,
    "kernels": kernels.kernels,
    "llama-cpp": kernels.llama_cpp,
    "soak": serve.soak,
    "groups": groups.groups,
    "serve-int4": rates.serve_int4,
    "serve-int8": rates.serve_int8,
    "serve-short": waits.serve_short,
    "serve-gaps": waits.serve_gaps,
    "serve-prefix": waits.serve_prefix,
    "serve-constrained": rates.serve_constrained,
}
EXTRA: dict[str, Row] = {"policies": policies.policies}
"""Only measured when named."""
RESULTS = Path(__file__).parent / "results"
WIDTHS = (54, 16, 12, 8)


def main() -> None:
    end_children_when_told()
    given = _arguments()
    if given.list:
        for name, row in (ROWS | EXTRA).items():
            print(f"{name:16}{_method(row)}")
        return
    settings = Settings(runs=given.runs, threads=given.threads, work=RESULTS / "weights")
    found = measure(given.rows or list(ROWS), settings)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({**_machine(settings), **found}, indent=1) + "\n")
    print(f"written to {given.json}")


def measure(names: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Every row in turn, printed as it comes."""
    figures: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    _print(("figure", "measured", "target", "reached"), "how")
    for name in names:
        row = (ROWS | EXTRA)[name]
        begin = time.monotonic()
        try:
            for figure in row(settings):
                figures.append({"row": name, **figure.as_json(), "how": figure.how or _method(row)})
                _print(_cells(figure), figure.how or _method(row))
        except (Skip, Unfit) as reason:
            skipped[name] = str(reason)
            _print((name, "skipped", "", ""), str(reason))
        print(f"  {name} took {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return {"figures": figures, "skipped": skipped}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*ROWS, *EXTRA]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(known)}; by default all but the last")
    parser.add_argument("--runs", type=int, default=5, help="samples of each figure, the best of which counts")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of each process")
    parser.add_argument("--json", type=Path, default=RESULTS / "bench.json", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="name the rows and their methods")
    given = parser.parse_args()
    unknown = [name for name in given.rows if name not in known]
    if unknown:
        parser.error(f"unknown row {unknown[0]!r}; rows are {', '.join(known)}")
    return given


def _method(row: Row) -> str:
    return (row.__doc__ or "").strip()


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    sign = ">=" if figure.higher else "<="
    target = "" if figure.target is None else f"{sign} {figure.target:g}"
    reached = {None: "", True: "yes", False: "NO"}[figure.reached]
    return figure.name, f"{figure.value:.4g} {figure.unit}".strip(), target, reached


def _print(cells: Sequence[str], how: str) -> None:
    print("".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)) + how, flush=True)


def _machine(settings: Settings) -> dict[str, Any]:
    return {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "runs": settings.runs,
        "threads": settings.threads,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


if __name__ == "__main__":
    main()
