"""The installed formats that matrices are offered in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from truecluster.api import CannotPack, PluginError, QuantizerSpec, WeightFormat

from ._contract import registry


def installed_formats(more: Sequence[str]) -> list[WeightFormat]:
    """Families that are formats by themselves and what recipes name, where they can pack; and ``more``.

    Raises `PluginError` where one of ``more`` isn't installed, and `CannotPack` where it can only be read.
    """
    families = [offer.spec.name for offer in registry().offers("format")]
    recipes = [offer.spec for offer in registry().offers("quantizer")]
    roles = [id for recipe in recipes if isinstance(recipe, QuantizerSpec) for id in recipe.roles.values()]
    probed = dict.fromkeys([*families, *(id for id in roles if id != "keep" and "*" not in id)])
    found = [format for id in probed if id not in more and (format := _packing(id))]
    for id in more:
        found.append(registry().format(id))
        found[-1].pack(torch.ones(1, 64))
    return found


def _packing(id: str) -> WeightFormat | None:
    try:
        format = registry().format(id)
        format.pack(torch.ones(1, 64))
    except (CannotPack, PluginError):
        return None
    return format
