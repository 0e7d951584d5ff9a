"""Which checkpoint spec opens a model reference, decided by the forms that the specs name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from os.path import exists, expanduser, isdir, join

from truecluster.api import CheckpointError, CheckpointSpec, PluginError

from .offers import Offer

FOLDER, HUB_ID = "FOLDER", "ORG/NAME"
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def choose(offers: Sequence[Offer], reference: str) -> Offer:
    """The offer that opens ``reference``.

    In this order: a prefix, an existing folder, an ending, a hub id. Raises `CheckpointError` saying which forms
    there are, `PluginError` where two offers claim the form.
    """
    if not reference:
        raise CheckpointError(f"model '': the reference is empty; {_help(offers)}")
    prefix = _PREFIX.match(reference)
    if prefix:
        return _only(
            reference, _having(offers, lambda form: form == prefix[0]), f"no plugin opens {prefix[0]!r}", offers
        )
    path = expanduser(reference)
    if isdir(path):
        return _folder(offers, reference, path)
    endings = _having(offers, lambda form: form.startswith("*") and path.lower().endswith(form[1:].lower()))
    if exists(path):
        return _only(reference, endings, "no plugin opens such a file", offers)
    if endings or not _HUB_ID.fullmatch(reference):
        raise CheckpointError(f"model {reference!r}: there is no such file or folder; {_help(offers)}")
    return _only(reference, _having(offers, lambda form: form == HUB_ID), "no plugin opens hub ids", offers)


def _having(offers: Sequence[Offer], fits: Callable[[str], bool]) -> list[Offer]:
    return [offer for offer in offers if any(map(fits, _spec(offer).forms))]


def _folder(offers: Sequence[Offer], reference: str, path: str) -> Offer:
    able = _having(offers, lambda form: form == FOLDER)
    markers = sorted({marker for offer in able for marker in _spec(offer).markers})
    marked = [offer for offer in able if any(exists(join(path, marker)) for marker in _spec(offer).markers)]
    return _only(
        reference, marked, f"the folder has none of {', '.join(markers) or '(no plugin opens folders)'}", offers
    )


def _only(reference: str, able: Sequence[Offer], otherwise: str, offers: Sequence[Offer]) -> Offer:
    if not able:
        raise CheckpointError(f"model {reference!r}: {otherwise}; {_help(offers)}")
    if len(able) > 1:
        raise PluginError(f"model {reference!r} is claimed by {' and by '.join(map(str, able))}; uninstall one of them")
    return able[0]


def _help(offers: Sequence[Offer]) -> str:
    forms = [form for offer in offers for form in _spec(offer).forms]
    words = {FOLDER: "an existing folder", HUB_ID: "ORG/NAME of the hub"}
    return f"a model is one of: {', '.join(words.get(form, form) for form in forms) or 'nothing installed'}"


def _spec(offer: Offer) -> CheckpointSpec:
    assert isinstance(offer.spec, CheckpointSpec)
    return offer.spec
