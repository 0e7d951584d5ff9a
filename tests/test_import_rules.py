"""Who may know whom: the table of ARCHITECTURE.md, held by reading every import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guide import write_examples

from truecluster._registry import Registry
from truecluster._scaffold import KINDS, create

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "src" / "truecluster"
ROWS = [
    "api",
    "_registry",
    "_plan",
    "_wire",
    "_weights",
    "nn",
    "_pipeline",
    "_node",
    "_engine",
    "_cluster",
    "_text",
    "_serve",
    "testing",
    "_scaffold",
    "_cli",
]
"""A row imports only from rows above it, and from itself."""

SOCKETS = {"socket", "ssl", "selectors", "anyio", "asyncio"}
HTTP = {"fastapi", "starlette", "uvicorn", "truecluster._serve"}
TEXT = {"tokenizers", "transformers", "jinja2", "truecluster._text"}
NODES = {"truecluster._wire", "truecluster._node", "truecluster._cluster", "truecluster._pipeline"}
UNKNOWN = {
    "api": {"torch", "numpy", "transformers"},
    "_registry": {"torch", "numpy", "transformers"},
    "_plan": SOCKETS | {"torch"},
    "_weights": SOCKETS | {"truecluster._wire"},
    "nn": SOCKETS | {"truecluster._wire", "truecluster._plan"},
    "_pipeline": SOCKETS | TEXT,
    "_node": HTTP | TEXT,
    "_engine": SOCKETS | TEXT,
    "_cluster": HTTP | TEXT,
    "_text": NODES,
    "_serve": NODES,
}
"""What a row does not know."""

PLUGINS = sorted(
    file.parent for file in [*ROOT.glob("tcplug_*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
)
NAMES = {plugin.name for plugin in PLUGINS}
CONTRACT = "contract.py"
"""How files of a plugin end that are imported only to check it, and may use the suites and what they need."""
EXECUTES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.jit.load", "yaml.load", "numpy.load", "np.load"}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports(file: Path, *, at_run_time: bool = False, package: str = "") -> Iterator[str]:
    """Dotted names that a file imports, ``from a import b`` as ``a.b``; relative ones below ``package``."""
    tree = ast.parse(file.read_text())
    skipped = {
        id(node) for branch in ast.walk(tree) if at_run_time and typing_only(branch) for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def package_of(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).parent.parts)


def within(name: str, banned: set[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in banned)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_imports_only_rows_above_it(row: str) -> None:
    below = {f"truecluster.{other}" for other in ROWS[ROWS.index(row) + 1 :]}
    assert violations(CORE / row, CORE.parent, below, at_run_time=False) == []


@pytest.mark.parametrize("row", UNKNOWN)
def test_a_row_does_not_import_what_it_does_not_know(row: str) -> None:
    assert violations(CORE / row, CORE.parent, UNKNOWN[row], at_run_time=True) == []


def test_every_package_of_core_has_its_row() -> None:
    assert {path.parent.name for path in CORE.glob("*/__init__.py")} <= set(ROWS)


def test_core_imports_no_plugin() -> None:
    assert violations(CORE, CORE.parent, NAMES, at_run_time=False) == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_imports_only_what_is_public(plugin: Path) -> None:
    private = {f"truecluster.{row}" for row in ROWS if row.startswith("_")} | (NAMES - {plugin.name})
    source = plugin / "src"
    assert violations(source, source, private | {"truecluster.testing"}, at_run_time=False, but=CONTRACT) == []
    assert violations(source, source, private, at_run_time=False) == []
    assert violations(plugin / "tests", plugin, private, at_run_time=False) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_imports_only_what_is_public(kind: str, tmp_path: Path) -> None:
    plugin = create(kind, "fresh", tmp_path, Registry()).folder
    private = {f"truecluster.{row}" for row in ROWS if row.startswith("_")} | NAMES
    source = plugin / "src"
    assert violations(source, source, private | {"truecluster.testing"}, at_run_time=False, but=CONTRACT) == []
    assert violations(plugin, plugin, private, at_run_time=False) == []
    test_the_declaration_of_a_plugin_imports_the_api_and_nothing_else(plugin)


def test_the_examples_of_the_guide_import_only_what_is_public(tmp_path: Path) -> None:
    write_examples(tmp_path)
    private = {f"truecluster.{row}" for row in ROWS if row.startswith("_")} | NAMES
    assert violations(tmp_path, tmp_path, private, at_run_time=False) == []
    assert violations(tmp_path, tmp_path, {"truecluster.testing"}, at_run_time=False, but=CONTRACT) == []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_the_declaration_of_a_plugin_imports_the_api_and_nothing_else(plugin: Path) -> None:
    declaration = plugin / "src" / plugin.name / "plugin.py"
    names = [name for name in imports(declaration, package=plugin.name) if name != "__future__.annotations"]
    assert [name for name in names if not name.startswith("truecluster.api.")] == []


@pytest.mark.parametrize("folder", [CORE, *(plugin / "src" for plugin in PLUGINS)], ids=lambda path: path.parent.name)
def test_nothing_runs_code_from_data(folder: Path) -> None:
    assert violations(folder, folder, EXECUTES, at_run_time=False) == []
    assert [
        f"{file.relative_to(ROOT)}: {call}" for file in files(folder) for call in calls(file) if call in CALLS
    ] == []


COMES_WITH = {"starlette": "fastapi", "pytest": "pytest"}
"""Imported under another name than it is asked for; pytest is of the extra ``testing``."""
OPTIONAL = {"transformers"}


@pytest.mark.parametrize("project", [ROOT / "core", *PLUGINS], ids=lambda path: path.name)
def test_a_package_asks_for_what_it_imports(project: Path) -> None:
    listed = (project / "pyproject.toml").read_text().replace("_", "-").lower()
    at_work = [file for file in files(project / "src") if not file.name.endswith(CONTRACT)]
    names = {name for file in at_work for name in imports(file, at_run_time=True, package="own.own")}
    foreign = (
        {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - OPTIONAL - {"own", "__future__"}
    )
    wanted = {COMES_WITH.get(name, name).replace("_", "-") for name in foreign - {project.name}}
    assert [name for name in sorted(wanted) if f'"{name}' not in listed] == []


def test_only_the_registry_and_its_suites_import_by_name() -> None:
    by_name = {"importlib.import_module", "import_module"}
    callers = {file.relative_to(CORE).parts[0] for file in files(CORE) if by_name & set(calls(file))}
    assert callers <= {"_registry", "testing"}


def calls(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node.func)


def violations(
    folder: Path, root: Path, banned: set[str], *, at_run_time: bool, but: tuple[str, ...] | str = ()
) -> list[str]:
    """Every banned import below ``folder``, whose packages are named from ``root``, but in files that end so."""
    return [
        f"{file.relative_to(root)} imports {name}"
        for file in files(folder)
        if not file.name.endswith(but)
        for name in imports(file, at_run_time=at_run_time, package=package_of(file, root))
        if within(name, banned)
    ]


def test_the_reader_sees_every_way_to_import(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import a.b, c as d\nfrom e import f\nfrom . import g\nfrom ..h import i\n"
        "def late():\n    import j\nif TYPE_CHECKING:\n    import k\n"
    )
    everything = ["a.b", "c", "e.f", "top.mid.g", "top.h.i", "j", "k"]
    assert sorted(imports(file, package="top.mid")) == sorted(everything)
    assert "k" not in list(imports(file, at_run_time=True, package="top.mid"))


def test_a_violation_is_found(tmp_path: Path) -> None:
    assert within("truecluster._wire.frames", {"truecluster._wire"})
    assert not within("truecluster._wires", {"truecluster._wire"})
    bad = tmp_path / "bad.py"
    bad.write_text("import torch\ntorch.load('x')\nmodel.eval()\n")
    assert set(calls(bad)) & CALLS == {"torch.load"}
