"""What a new plugin may be called, and all the names that follow from it."""

from __future__ import annotations

import keyword
import re
from importlib import metadata
from importlib.util import find_spec

import attrs

from truecluster._registry import Offer, Registry
from truecluster._registry.selection import normalized
from truecluster.api import ArchitectureSpec, CheckpointSpec, PluginError

PREFIX = "tcplug_"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST = 32
_ALIKE = {"quantizer": ("quantizer", "format")}
"""A recipe's template brings a format of the same name."""
_WORDS = {
    ("quantizer", "keep"): "in a recipe it leaves the checkpoint's own format",
    ("device", "auto"): "with --device it chooses the best one",
    ("kernel", "reference"): "it is the core's own kernel",
}
"""Kind and name → what the word means already where such a name is given."""


@attrs.frozen
class Names:
    """``offer`` is what a user types; the others follow from it."""

    offer: str

    @property
    def module(self) -> str:
        """The package that Python imports, and the folder."""
        return f"{PREFIX}{self.offer}"

    @property
    def distribution(self) -> str:
        """What pip installs."""
        return self.module.replace("_", "-")

    @property
    def stem(self) -> str:
        """What the names of its classes begin with."""
        return "".join(word.capitalize() for word in self.offer.split("_"))


def check(name: str, kind: str, registry: Registry) -> Names:
    """Raises `PluginError` for what is no name, or the name of something that is installed."""
    if name.startswith(PREFIX):
        rest = name.removeprefix(PREFIX)
        raise PluginError(f"the name {name!r} has {PREFIX!r} too much: the package gets it by itself; give {rest!r}")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise PluginError(
            f"{name!r} can't be the name of a plugin: it must begin with a letter and have small letters, digits and "
            f"single underscores, at most {_LONGEST} characters; such as my_{kind}"
        )
    if keyword.iskeyword(name):
        raise PluginError(f"{name!r} can't be the name of a plugin: it is a word of Python; take another, my_{name}")
    if (kind, name) in _WORDS:
        meaning = _WORDS[kind, name]
        raise PluginError(f"{name!r} can't be the name of a {kind}: {meaning}; take another, such as my_{name}")
    names = Names(name)
    _refuse_offered(names, kind, registry)
    _refuse_installed(names)
    return names


def _refuse_offered(names: Names, kind: str, registry: Registry) -> None:
    for alike in _ALIKE.get(kind, (kind,)):
        for offer in registry.offers(alike):
            if names.offer in _claims(offer):
                raise PluginError(
                    f"{names.offer!r} is taken: {alike} {offer} has it, and of two such offers none can be chosen; "
                    "take another name, or uninstall that one"
                )


def _claims(offer: Offer) -> set[str]:
    """The names that a new offer of the kind mustn't have."""
    spec = offer.spec
    claimed = {spec.name}
    if isinstance(spec, ArchitectureSpec):
        claimed.update(spec.model_types)
    if isinstance(spec, CheckpointSpec):
        claimed.update(form.removeprefix("*.") for form in spec.forms)
    return claimed


def _refuse_installed(names: Names) -> None:
    for distribution in metadata.distributions():
        found = distribution.metadata["Name"]
        if found and normalized(found) == names.distribution:
            raise PluginError(
                f"{found} {distribution.version} is installed already; take another name, or pip uninstall {found}"
            )
    module = find_spec(names.module)
    if module is not None and module.origin is not None:  # a folder of that name that is no package has none
        raise PluginError(f"Python finds a module {names.module} already; take another name")
