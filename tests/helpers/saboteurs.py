"""A plugin that makes the processes which find it behave badly, as a faulty kernel or device would."""

from __future__ import annotations

import textwrap
from pathlib import Path


def saboteur(folder: Path, code: str) -> dict[str, str]:
    """The environment of processes that run ``code`` when they look for plugins."""
    metadata = folder / "tcplug_saboteur-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tcplug-saboteur\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[truecluster.plugins]\nsaboteur = tcplug_saboteur.plugin\n")
    (folder / "tcplug_saboteur").mkdir()
    (folder / "tcplug_saboteur" / "plugin.py").write_text(textwrap.dedent(code))
    return {"PYTHONPATH": str(folder)}


def in_steps(what: str, after: int = 3) -> str:
    """Do ``what`` in the step number ``after`` of every stage of the process."""
    return _patched("truecluster._pipeline.stage", "Stage", "execute", what, after)


def in_loading(what: str) -> str:
    """Do ``what`` once, before the first weight of a stage is loaded."""
    return _patched("truecluster._node.hosting", "Hosting", "_read", what, 0)


def _patched(module: str, owner: str, method: str, what: str, after: int) -> str:
    return f"""
        import ctypes, itertools, sys, time
        from {module} import {owner}

        whole, calls = {owner}.{method}, itertools.count()

        def {method}(self, *arguments):
            if next(calls) == {after}:
                {what}
            return whole(self, *arguments)

        {owner}.{method} = {method}
    """


def hold_the_interpreter(seconds: int) -> str:
    """No other thread of the process runs meanwhile."""
    return f"ctypes.PyDLL(None).sleep({seconds})"


def in_every_step(seconds_a_token: float) -> str:
    """Sleep in every step of a process's stages, as machines of their own would work: it costs no processor."""
    return f"""
        import time
        from truecluster._pipeline.stage import Stage

        whole = Stage.execute

        def execute(self, header, payload):
            time.sleep({seconds_a_token} * len(payload))
            return whole(self, header, payload)

        Stage.execute = execute
    """
