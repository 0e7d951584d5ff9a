"""Memory bounds of the control groups that this process is in (Linux, versions 1 and 2)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

UNBOUNDED = 1 << 60
"""Version 1 writes "no limit" as a huge number."""
FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Limit, usage, and the line of memory.stat that says how much of it are file pages that go when needed."""


def room(root: Path = Path("/")) -> list[tuple[int, int]]:
    """(limit, free) bytes of each bounded group, from the process's own up to the root of what is visible."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = [_read(folder, version) for version, folder in _folders(lines, root / "sys/fs/cgroup")]
    return [bound for bound in found if bound is not None]


def _folders(lines: list[str], mount: Path) -> list[tuple[int, Path]]:
    folders: list[tuple[int, Path]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version, base = (1, mount / "memory") if controllers else (2, mount)
        own = PurePosixPath(path)
        folders += [(version, base / str(group).lstrip("/")) for group in (own, *own.parents)]
    return folders


def _read(folder: Path, version: int) -> tuple[int, int] | None:
    limit_file, usage_file, reclaimable = FILES[version]
    try:
        limit = int((folder / limit_file).read_text())
        usage = int((folder / usage_file).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group from here, or "max"
        return None
    if limit >= UNBOUNDED:
        return None
    return limit, max(0, limit - usage + int(stat.get(reclaimable, 0)))
