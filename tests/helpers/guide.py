"""docs/plugins.md in parts: its sections, its console lines, and the packages that its examples make."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "plugins.md"
TEXT = GUIDE.read_text()
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
CONSOLE = re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE)


def slug(heading: str) -> str:
    """What a link to a heading is called."""
    return heading.lower().replace(" ", "-")


def section(anchor: str) -> str:
    """What stands under a heading, line breaks as spaces."""
    heading = next(each for each in HEADINGS if slug(each) == anchor)
    body = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.sub(r"[ \n]+", " ", body)


def examples() -> dict[str, str]:
    """Path → source of every block of Python, which says its path in its first line."""
    blocks = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert len(blocks) == TEXT.count("```python\n") == len(dict(blocks))
    return dict(blocks)


def write_examples(site: Path) -> list[str]:
    """The packages as pip would leave them in ``site``; returns their distributions."""
    for path, source in examples().items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(source)
    return [_install(package) for package in sorted(site.glob("tcplug_*"))]


def _install(package: Path) -> str:
    name, info = package.name.replace("_", "-"), package.with_name(f"{package.name}-1.0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = {"plugin": "truecluster.plugins", "contract": "truecluster.contracts"}
    there = {group: f"{package.name}.{file}" for file, group in groups.items() if (package / f"{file}.py").exists()}
    (info / "entry_points.txt").write_text("".join(f"[{group}]\nown = {value}\n" for group, value in there.items()))
    (package / "__init__.py").touch()
    return name
