"""The registry: an object that is passed in, never a module global."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Any

import pluggy

from truecluster.api import (
    ArchitectureSpec,
    CheckpointSource,
    OptionValue,
    PluginError,
    QuantizerSpec,
    TrueClusterError,
    WeightFormat,
)

from . import architectures, hookspecs, recipes, references
from .declared import check_declared
from .discovery import Found, scan
from .failures import PluginFailure
from .kernels import Kernels, usable
from .kinds import KINDS, AnySpec
from .loading import Collected, collect
from .observers import Observer
from .offers import Offer, clash, conflicts
from .options import read_options
from .places import Flaw, of_error
from .selection import Selection
from .suggest import unknown
from .targets import load_target, target_module
from .trace import Trace, clock

LOG = logging.getLogger(__name__)


class Registry:
    """What the installed plugins offer, by kind and name.

    Call `discover`, then `load`; or `installed`, which does both. Every method that takes a name raises `PluginError`
    where nothing, or more than one offer, has it.
    """

    def __init__(self, selection: Selection | None = None) -> None:
        self.selection = selection or Selection()
        self.found: tuple[Found, ...] = ()
        self.left_out: tuple[Found, ...] = ()
        self.failures: list[PluginFailure] = []
        self.observers: list[Observer] = []
        self._trace = Trace(self.selection.trace)
        self._manager = pluggy.PluginManager("truecluster")
        self._manager.add_hookspecs(hookspecs)
        self._owners: dict[int, str] = {}
        self._offers: list[Offer] = []
        self._formats: dict[str, WeightFormat] = {}
        self._failed_kernels: set[str] = set()

    @classmethod
    def installed(cls, selection: Selection | None = None) -> Registry:
        """A registry of what is installed, and selected: by the environment, where no selection is given.

        A plugin that fails is named in a log line, or raises where the selection is strict.
        """
        registry = cls(Selection.from_environment() if selection is None else selection)
        registry.discover()
        registry.load()
        registry.check_strict()
        for failure in registry.failures:
            LOG.warning("a plugin failed: %s", failure)
        return registry

    def discover(self) -> tuple[Found, ...]:
        """Find plugins by their metadata, importing none. Raises `PluginError` for a selected one that isn't there."""
        since = clock()
        scanned = scan(self.selection)
        self.found, self.left_out = scanned.found, scanned.left_out
        self.failures += scanned.failures
        self._trace(f"searched for plugins, found {len(self.found)}", since)
        for found in self.found:
            self._trace(f"found {found.distribution} {found.version}: {found.entry} is {found.module}")
        for found in self.left_out:
            self._trace(f"left out {found.distribution} {found.version}: {found.entry}")
        return self.found

    def load(self) -> None:
        """Import what was discovered; a plugin that fails is kept in ``failures`` and offers nothing."""
        for found in self.found:
            since, what = clock(), f"{found.module} of {found.distribution} {found.version}"
            try:
                module = importlib.import_module(found.module)
                self._trace(f"imported {what}", since)
                self.register(module, found.distribution, found.version)
            except (Exception, SystemExit) as error:
                place = of_error(error, found.module)
                self.failures.append(PluginFailure(found.distribution, found.version, error, place))
                self._trace(f"failed: {what}: {type(error).__name__}: {error}", since)

    def register(self, plugin: object, distribution: str, version: str) -> None:
        """Take the hook implementations of a module (or any object) as those of a distribution.

        A hook that raises costs its own offers and is kept in ``failures``. Raises, and registers nothing, for a hook
        that isn't declared as one of ours, or a spec written for another interface number.
        """
        self._check_new(plugin)
        check_declared(self._manager, plugin)
        since = clock()
        self._manager.register(plugin)
        try:
            collected = collect(self._manager, plugin)
        except Exception:
            self._manager.unregister(plugin)
            raise
        self._owners[id(plugin)] = f"{distribution} {version}"
        self._keep(collected, distribution, version)
        self._trace(f"registered {distribution} {version}: {collected}", since)

    def check_strict(self) -> None:
        """Where the selection is strict, raise `PluginError` for everything that is wrong with a plugin."""
        clashes = [clash(group) for kind in KINDS for group in self.conflicts(kind)]
        problems = [*map(str, self.failures), *clashes]
        if self.selection.strict and problems:
            raise PluginError(f"--strict-plugins allows no plugin that fails: {'; '.join(problems)}")

    def offers(self, kind: str) -> tuple[Offer, ...]:
        """Everything offered of a kind, in the order of the distributions' names, clashing names included."""
        self._check_kind(kind)
        return tuple(offer for offer in self._offers if offer.kind == kind)

    def conflicts(self, kind: str) -> tuple[tuple[Offer, ...], ...]:
        """Offers that share a name, or a form of references; by that none of them can be chosen."""
        return tuple(conflicts(self.offers(kind)))

    def offer(self, kind: str, name: str) -> Offer:
        """The one offer of that kind and name."""
        offers = self.offers(kind)
        same = tuple(offer for offer in offers if offer.spec.name == name)
        if not same:
            left_out = list(dict.fromkeys(found.distribution for found in self.left_out))
            raise PluginError(unknown(kind, name, {offer.spec.name for offer in offers}, self.failures, left_out))
        if len(same) > 1:
            raise PluginError(clash(same))
        return same[0]

    def spec(self, kind: str, name: str) -> AnySpec:
        """The spec of that kind and name; nothing of it is imported."""
        return self.offer(kind, name).spec

    def compat(self, kind: str, name: str) -> str:
        """What two nodes must agree on to run the offer together: its distribution's version."""
        return self.offer(kind, name).version

    def resolve(self, kind: str, name: str) -> type[Any]:
        """Import the offer's target: a class derived from the kind's base in ``truecluster.api``."""
        return self._load(self.offer(kind, name))

    def options(self, kind: str, name: str, given: Mapping[str, str]) -> dict[str, OptionValue | None]:
        """Every option of an offer with its value, ``given`` as text or the default; imports nothing.

        Raises `PluginError` for an option that the offer doesn't have or that isn't of its type.
        """
        return read_options(self.offer(kind, name), given)

    def make(self, kind: str, name: str, given: Mapping[str, str]) -> Any:
        """An instance of the offer's target, made with its options. Raises `PluginError` where it can't be."""
        options = self.options(kind, name, given)
        target = self.resolve(kind, name)
        try:
            return target(**options)
        except TrueClusterError:
            raise
        except Exception as error:
            values = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no options"
            raise PluginError(
                f"{kind} {self.offer(kind, name)} can't be made with {values}: {type(error).__name__}: {error}"
            ) from error

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
        """An instance of every kernel that this machine can run, and why it can't run the others.

        One that raises is kept in ``failures`` too, and named in a log line, or raises where the selection is strict.
        """
        offers = [self.offer("kernel", offer.spec.name) for offer in self.offers("kernel")]
        kernels = usable(offers, self._load)
        for offer, error in kernels.failures:
            if offer.spec.name not in self._failed_kernels:
                self._failed_kernels.add(offer.spec.name)
                place = of_error(error, target_module(offer))
                self.failures.append(PluginFailure(offer.distribution, offer.version, error, place))
                self.check_strict()
                LOG.warning("a kernel failed: %s", self.failures[-1])
        return kernels

    def _check_new(self, plugin: object) -> None:
        if self._manager.is_registered(plugin):
            raise Flaw(
                f"it names the same module as another plugin, {self._owners[id(plugin)]}; uninstall one of them",
                getattr(plugin, "__file__", None),
            )

    def _keep(self, collected: Collected, distribution: str, version: str) -> None:
        self._offers += [Offer(spec, distribution, version, place) for spec, place in collected.specs]
        self.observers += [Observer(call, distribution, version) for call in collected.observers]
        self.failures += [PluginFailure(distribution, version, error, place) for error, place in collected.failures]

    def _load(self, offer: Offer) -> type[Any]:
        since = clock()
        try:
            target = load_target(offer)
        except PluginError as error:
            self._trace(f"failed: {error}", since)
            raise
        self._trace(f"resolved {offer.kind} {offer}: {target.__module__}:{target.__qualname__}", since)
        return target

    def _check_kind(self, kind: str) -> None:
        if kind not in KINDS:
            raise PluginError(f"there is no plugin kind {kind!r}; kinds: {', '.join(KINDS)}")
