"""A virtual environment of its own that finds everything that is installed where the tests run."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import attrs


@attrs.frozen
class Environment:
    """What is installed or removed here touches nothing else."""

    home: Path

    @classmethod
    def create(cls, home: Path) -> Environment:
        """Editable installations count too: they are ``.pth`` files, which a folder on the path alone doesn't read."""
        venv.create(home, with_pip=False)
        folder = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
        there = sysconfig.get_path("purelib")
        (folder / "everything.pth").write_text(f"import site; site.addsitedir({there!r})\n")
        return cls(home)

    def python(self, *arguments: object, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run its interpreter."""
        command = [str(self.home / "bin" / "python"), *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)

    def tc(self, *arguments: object, cwd: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run ``tc``."""
        return self.python("-m", "truecluster", *arguments, cwd=cwd, timeout=timeout)

    def pip(self, command: str, *arguments: object) -> None:
        """Without network; raises where pip fails."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.home / "bin" / "python"), "--quiet", command]
        subprocess.run([*pip, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=300)

    def install(self, *folders: Path) -> None:
        """Editable, as an author does."""
        editable = [word for folder in folders for word in ("--editable", folder)]
        self.pip("install", "--no-deps", "--no-index", "--no-build-isolation", *editable)
