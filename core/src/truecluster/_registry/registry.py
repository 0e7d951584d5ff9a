"""The registry: an object that is passed in, never a module global."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any

import attrs
import pluggy

from truecluster.api import (
    ArchitectureSpec,
    CheckpointSource,
    Kernel,
    KernelSpec,
    PluginError,
    QuantizerSpec,
    WeightFormat,
)

from . import architectures, hookspecs, recipes, references
from .discovery import Found, scan
from .failures import PluginFailure
from .kinds import KINDS, AnySpec
from .offers import Offer, WrongAPI, conflicts, specs_of
from .suggest import unknown
from .targets import load_target


@attrs.frozen(eq=False)
class Kernels:
    """``available`` as (name, rank, kernel), highest rank first; ``unavailable``: name → why this machine can't."""

    available: tuple[tuple[str, int, Kernel], ...]
    unavailable: Mapping[str, str]


class Registry:
    """What the installed plugins offer, by kind and name.

    Call `discover`, then `load`; or `installed`, which does both. Every method that takes a name raises `PluginError`
    where nothing, or more than one offer, has it.
    """

    def __init__(self) -> None:
        self.found: tuple[Found, ...] = ()
        self.failures: list[PluginFailure] = []
        self._manager = pluggy.PluginManager("truecluster")
        self._manager.add_hookspecs(hookspecs)
        self._offers: list[Offer] = []
        self._formats: dict[str, WeightFormat] = {}

    @classmethod
    def installed(cls, allow: Collection[str] | None = None, deny: Collection[str] = ()) -> Registry:
        """A registry of everything that is installed."""
        registry = cls()
        registry.discover(allow, deny)
        registry.load()
        return registry

    def discover(self, allow: Collection[str] | None = None, deny: Collection[str] = ()) -> tuple[Found, ...]:
        """Find plugins by their metadata, importing none; the lists name distributions.

        Raises `PluginError` for an allowed one that isn't installed.
        """
        scanned = scan(allow, deny)
        self.found = scanned.found
        self.failures += scanned.failures
        return self.found

    def load(self) -> None:
        """Import what was discovered; a plugin that fails is kept in ``failures`` and offers nothing."""
        for found in self.found:
            try:
                self.register(importlib.import_module(found.module), found.distribution, found.version)
            except (Exception, SystemExit) as error:
                self.failures.append(PluginFailure(found.distribution, found.version, error))

    def register(self, plugin: object, distribution: str, version: str) -> None:
        """Take the hook implementations of a module (or any object) as those of a distribution.

        A hook that raises costs its own offers and is kept in ``failures``. Raises, and registers nothing, for a hook
        that isn't one of ours, or a spec written for another interface number.
        """
        if self._manager.is_registered(plugin):
            raise PluginError(
                f"{distribution} {version} names the same module as another plugin; uninstall one of them"
            )
        try:
            self._manager.register(plugin)
            self._manager.check_pending()
            self._offers += self._collect(plugin, distribution, version)
        except Exception:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            raise

    def offers(self, kind: str) -> tuple[Offer, ...]:
        """Everything offered of a kind, in the order of the distributions' names, clashing names included."""
        self._check_kind(kind)
        return tuple(offer for offer in self._offers if offer.kind == kind)

    def conflicts(self, kind: str) -> tuple[tuple[Offer, ...], ...]:
        """Offers that share a name; none of them can be chosen."""
        return tuple(conflicts(self.offers(kind)))

    def offer(self, kind: str, name: str) -> Offer:
        """The one offer of that kind and name."""
        offers = self.offers(kind)
        same = [offer for offer in offers if offer.spec.name == name]
        if not same:
            raise PluginError(unknown(kind, name, {offer.spec.name for offer in offers}, self.failures))
        if len(same) > 1:
            clash = " and by ".join(f"{offer.distribution} {offer.version}" for offer in same)
            raise PluginError(f"{kind} {name!r} is offered by {clash}; uninstall one of them")
        return same[0]

    def spec(self, kind: str, name: str) -> AnySpec:
        """The spec of that kind and name; nothing of it is imported."""
        return self.offer(kind, name).spec

    def compat(self, kind: str, name: str) -> str:
        """What two nodes must agree on to run the offer together: its distribution's version."""
        return self.offer(kind, name).version

    def resolve(self, kind: str, name: str) -> type[Any]:
        """Import the offer's target: a class derived from the kind's base in ``truecluster.api``."""
        return load_target(self.offer(kind, name))

    def format(self, id: str) -> WeightFormat:
        """The weight format with that id; its family is what stands before the first dot."""
        if id not in self._formats:
            self._formats[id] = self.resolve("format", id.partition(".")[0]).from_id(id)
        return self._formats[id]

    def recipe(self, name: str) -> QuantizerSpec:
        """The recipe with that name, an exact one before a member of a family (``int4.g128`` of ``int4.*``)."""
        names = [offer.spec.name for offer in self.offers("quantizer")]
        family = None if name in names else recipes.family_of(name, names)
        spec = self.spec("quantizer", family or name)
        assert isinstance(spec, QuantizerSpec)
        return recipes.member(spec, name) if family else spec

    def architecture_for(self, model_type: str, name: str | None = None) -> ArchitectureSpec:
        """The architecture that runs ``model_type``: the one that claims it, or ``name`` if it can run it exactly."""
        if name is None:
            name = architectures.automatic(self.offers("architecture"), model_type, self.failures).spec.name
        spec = self.spec("architecture", name)
        assert isinstance(spec, ArchitectureSpec)
        architectures.check_hosts(spec, model_type)
        return spec

    def check_reference(self, reference: str) -> None:
        """Raises as `checkpoint_source` does, importing nothing."""
        references.choose(self.offers("checkpoint"), reference)

    def checkpoint_source(self, reference: str) -> CheckpointSource:
        """What opens a model reference, by its form. Raises `CheckpointError` saying which forms there are."""
        name = references.choose(self.offers("checkpoint"), reference).spec.name
        source: CheckpointSource = self.resolve("checkpoint", name)()
        return source

    def kernels(self) -> Kernels:
        """An instance of every kernel that this machine can run, and why it can't run the others."""
        available, unavailable = [], {}
        for spec in self._kernel_specs():
            try:
                kernel = self.resolve("kernel", spec.name)()
                reason = kernel.unavailable()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            if reason is None:
                available.append((spec.name, spec.rank, kernel))
            else:
                unavailable[spec.name] = reason
        return Kernels(tuple(available), unavailable)

    def _kernel_specs(self) -> list[KernelSpec]:
        specs = [self.spec("kernel", offer.spec.name) for offer in self.offers("kernel")]
        return sorted((spec for spec in specs if isinstance(spec, KernelSpec)), key=lambda spec: -spec.rank)

    def _collect(self, plugin: object, distribution: str, version: str) -> list[Offer]:
        specs: list[AnySpec] = []
        for caller in self._manager.get_hookcallers(plugin) or ():
            for implementation in [each for each in caller.get_hookimpls() if each.plugin is plugin]:
                try:
                    specs += specs_of(caller.name, implementation.function)
                except WrongAPI:
                    raise
                except Exception as error:
                    self.failures.append(PluginFailure(distribution, version, error))
        return [Offer(spec, distribution, version) for spec in specs]

    def _check_kind(self, kind: str) -> None:
        if kind not in KINDS:
            raise PluginError(f"there is no plugin kind {kind!r}; kinds: {', '.join(KINDS)}")
