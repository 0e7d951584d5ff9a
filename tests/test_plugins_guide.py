"""What docs/plugins.md says of hooks, specs, methods, contracts and names is what the code has."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args

import attrs
import pytest
from guide import HEADINGS, TEXT, section, slug

import truecluster.testing
from truecluster import api, nn
from truecluster._registry import KINDS, hookspecs
from truecluster._scaffold.rendering import TEMPLATES
from truecluster.testing._check.contracts import suites
from truecluster.testing._contract import Contract

BASES: dict[str, tuple[Any, ...]] = {
    "architecture": (api.Architecture,),
    "quantizer": (),
    "format": (api.WeightFormat,),
    "transport": (api.StreamTransport, api.EdgeTransport, api.Edge, api.Relay),
    "planner": (api.Planner,),
    "device": (api.DeviceBackend, api.DeviceContext),
    "checkpoint": (api.CheckpointSource, api.Checkpoint),
    "kernel": (api.Kernel,),
}
VALUES: dict[str, tuple[type, ...]] = {
    "architecture": (api.Dialect, api.ModelConfig, api.Slot, api.Rotary, api.Paged, api.Recurrent),
    "format": (api.Packed,),
    "transport": (api.EdgeTerms,),
    "planner": (api.Option, api.ModelProfile, api.PartProfile, api.NodeProfile, api.Limits, api.Placement, api.Span),
    "device": (api.DeviceInfo,),
    "checkpoint": (api.OpenOptions, api.TensorInfo, api.TokenizerData),
    "kernel": (api.Target, api.Dtypes),
    "events": get_args(api.Event),
}
FOR_AUTHORS = ("checked",)
"""Methods that are there to be called by those of a plugin, which rules are about."""
MEMBERS = [(kind, base) for kind, bases in BASES.items() for base in bases]


def test_links_within_the_guide_lead_to_its_headings() -> None:
    assert len(HEADINGS) == len(set(map(slug, HEADINGS)))
    assert set(re.findall(r"\(#([^)]*)\)", TEXT)) <= set(map(slug, HEADINGS))


def test_every_hook_has_a_section() -> None:
    named = {hook for anchor in map(slug, HEADINGS) for hook in re.findall(r"Hook `(\w+)\(", section(anchor))}
    assert named == {name for name in vars(hookspecs) if name.startswith("truecluster_")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_section_has_the_hook_and_every_field_of_the_spec(kind: str) -> None:
    hook, spec = KINDS[kind].hook, KINDS[kind].spec
    assert f"Hook `{hook}()` yields `{spec.__name__}`" in section(kind)
    own = [field for field in attrs.fields(spec) if field.name not in attrs.fields_dict(api.Spec)]
    assert [field.name for field in own if f"`{declared(field)}`" not in section(kind)] == []


def test_the_fields_that_all_specs_have_are_named_once() -> None:
    fields = attrs.fields(api.Spec)
    assert [field.name for field in fields if f"`{declared(field)}`" not in section("how-a-plugin-is-found")] == []


def declared(field: Any) -> str:
    """A field as a class declares it."""
    default = f" = {field.default!r}" if field.default is not attrs.NOTHING else ""
    return f"{field.name}: {field.type}{default}".replace("''", '""')


def test_every_base_class_is_some_kinds() -> None:
    public = [getattr(api, name) for name in api.__all__]
    assert {each for each in public if inspect.isabstract(each)} == {base for _, base in MEMBERS}


@pytest.mark.parametrize(("kind", "base"), MEMBERS, ids=[base.__name__ for _, base in MEMBERS])
def test_every_member_of_a_base_class_is_in_its_section_as_it_is_declared(kind: str, base: type) -> None:
    text = section(kind)
    assert [signature for _, signature in members(base) if f"`{signature}`" not in text] == []


def members(base: type) -> Iterator[tuple[str, str]]:
    """Name and declaration of each attribute and method, without ``self`` and ``cls``."""
    attributes = inspect.get_annotations(base)
    for name, kind in attributes.items():
        yield name, f"{name}: {kind.removeprefix('ClassVar[').removesuffix(']') if 'ClassVar' in kind else kind}"
    for name in vars(base):
        if not name.startswith("_") and name not in attributes:
            yield name, signature(name, getattr(base, name))


def signature(name: str, method: Any) -> str:
    found = inspect.signature(method)
    kept = [each for each in found.parameters.values() if each.name != "self"]
    shown = str(found.replace(parameters=kept))
    for annotation in [found.return_annotation, *(each.annotation for each in kept)]:
        shown = shown.replace(repr(annotation), annotation)
    return f"{'async ' * inspect.iscoroutinefunction(method)}{name}{shown}"


@pytest.mark.parametrize(("anchor", "value"), [(a, value) for a, values in VALUES.items() for value in values])
def test_every_field_of_a_value_is_named_in_its_section(anchor: str, value: type) -> None:
    fields = [field.name for field in attrs.fields(value) if not field.name.startswith("_")]
    assert [name for name in fields if not re.search(rf"`{name}\b", section(anchor))] == []


@pytest.mark.parametrize(("kind", "base"), MEMBERS, ids=[base.__name__ for _, base in MEMBERS])
def test_a_suite_calls_every_method_of_a_base_class(kind: str, base: type) -> None:
    suite = "".join(inspect.getsource(module) for module in modules_of(kind))
    methods = [name for name, declaration in members(base) if "(" in declaration and name not in FOR_AUTHORS]
    assert [name for name in methods if not re.search(rf"\.{name}\b", suite)] == []


def modules_of(kind: str) -> set[ModuleType]:
    """Those of the kind's suites, and what they take from other modules of the kit."""
    found: set[ModuleType] = set()
    pending = [each.__module__ for row in suites(kind) for suite in row for each in suite.__mro__]
    while pending:
        module = sys.modules[pending.pop()]
        if module not in found and module.__name__.startswith("truecluster.testing."):
            found.add(module)
            pending += [each.__module__ for each in vars(module).values() if isinstance(each, type)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_section_names_what_a_contract_may_be_given(kind: str) -> None:
    given = {
        name
        for row in suites(kind)
        for suite in row
        for each in suite.__mro__
        if issubclass(each, Contract) or each.__module__.startswith("truecluster.testing.")
        for name in inspect.get_annotations(each)
        if name not in inspect.get_annotations(Contract)
    }
    for module in modules_of(kind):
        given |= set(re.findall(r"missing\(self, \"(\w+)", inspect.getsource(module))) - {"offer"}
    assert [name for name in sorted(given) if not re.search(rf"`{name}\b", section(kind))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_template_that_offers_it(kind: str) -> None:
    folder = TEMPLATES / {"format": "quantizer"}.get(kind, kind)
    text = (folder / "src" / "_package" / "plugin.py.j2").read_text()
    assert f"def {KINDS[kind].hook}():" in text
    assert f"yield {KINDS[kind].spec.__name__}(" in text


def listed(package: str) -> set[str]:
    """The names in the guide's list of a package, without the package's own."""
    paragraph = re.search(rf"^`{re.escape(package)}`[:,].*?\n(?:\n|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert paragraph is not None
    return {name for name in re.findall(r"`([\w.]+)`", paragraph[0]) if not name.startswith("truecluster.")}


@pytest.mark.parametrize("package", [api, nn], ids=lambda package: package.__name__)
def test_every_public_name_is_listed_and_no_other(package: ModuleType) -> None:
    assert listed(package.__name__) == set(package.__all__)


def test_every_public_module_of_the_kit_is_listed_with_its_contracts() -> None:
    names = [each.name for each in pkgutil.iter_modules(truecluster.testing.__path__) if not each.name.startswith("_")]
    modules = [importlib.import_module(f"truecluster.testing.{name}") for name in names]
    public = {name for module in modules for name in getattr(module, "__all__", ())}
    public |= {name for module in modules for name, each in vars(module).items() if is_contract(each)} - {"Contract"}
    text = listed("truecluster.testing")
    assert {*names, *public} <= text
    assert [name for name in text - set(names) if not any(hasattr(module, name) for module in modules)] == []


def is_contract(value: object) -> bool:
    """A suite, not what suites are made of."""
    return isinstance(value, type) and issubclass(value, Contract) and value.__name__.endswith("Contract")
