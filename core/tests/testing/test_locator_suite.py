"""The suite of sources that only locate catches those that are wrong, each by one method."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from doubles import Double

from truecluster.api import CheckpointError, CheckpointSource, CheckpointSpec
from truecluster.testing._contract import Installed
from truecluster.testing.locator import LocatorContract


class Shop(CheckpointSource):
    """A right one: ``shop:NAME`` is a file of a folder, copied into the cache."""

    def open(self, reference, options):
        name, cache = reference.removeprefix("shop:"), self.cache(options)
        cache.mkdir(exist_ok=True)
        if not (cache / name).exists():
            self.say(options, f"fetching {name}")
            self.fetch(reference, Shop.shelf / name, cache / name)
        return str(cache / name)

    def cache(self, options):
        return Path(options.cache_dir)

    def folder(self, options):
        return str(self.cache(options))

    def say(self, options, line):
        options.say(line)

    def fetch(self, reference, source, target):
        if not source.exists():
            raise CheckpointError(f"there is no {reference}")
        shutil.copy(source, target)


class Empty(Shop):
    """Answers where the model would be."""

    def open(self, reference, options):
        return super().open(reference, options) + ".model"


class Homely(Shop):
    """Keeps what it fetches in a place of its own."""

    def cache(self, options):
        return Path(options.cache_dir).with_name("home")


class Secretive(Shop):
    """Tells of another folder than it uses."""

    def folder(self, options):
        return f"{super().folder(options)}-of-downloads"


class Sulky(Shop):
    """Has a reason, and doesn't say which."""

    def unreachable(self, patience):
        return " "


class Twice(Shop):
    """Keeps a second copy when it is asked again."""

    def open(self, reference, options):
        kept = Path(super().open(reference, options))
        another = kept.with_suffix(".another")
        if not another.exists():
            shutil.copy(kept, another)
            return str(kept)
        return str(another)


class Silent(Shop):
    """Says nothing."""

    def say(self, options, line):
        pass


class Vague(Shop):
    """Doesn't say what isn't there."""

    def fetch(self, reference, source, target):
        if not source.exists():
            raise CheckpointError("there is no such model")
        super().fetch(reference, source, target)


class Untidy(Shop):
    """Begins its file before it knows whether there is anything for it."""

    def fetch(self, reference, source, target):
        target.write_bytes(b"")
        super().fetch(reference, source, target)


class _Suite(LocatorContract):
    made: type[CheckpointSource] = Shop
    unknown = "shop:nothing"

    @pytest.fixture
    def installed(self):
        return Installed(CheckpointSpec(name="made", target=f"{__name__}:Shop", forms=("shop:",)), self.made)

    def publish(self, folder, monkeypatch):
        (folder / "model").write_bytes(b"weights")
        monkeypatch.setattr(Shop, "shelf", folder, raising=False)
        return "shop:model"


class SuiteWithoutPublish(LocatorContract):
    installed = _Suite.installed
    made = Shop


def suite(source):
    made = type(f"SuiteOf{source.__name__}", (_Suite,), {"made": source, "__module__": __name__})
    globals()[made.__name__] = made
    return made


SUITE = LocatorContract
RIGHT = [suite(Shop)]
DOUBLES = {
    "test_a_reference_leads_to_what_exists": Double(suite(Empty), "exists\ncame: model.model\nreference: shop:model"),
    "test_what_is_fetched_lies_in_the_cache": Double(suite(Homely), "a path below .*cache\ncame: .*home/model"),
    "test_the_folder_of_downloads_is_told": Double(suite(Secretive), "has model\ncame: .*cache-of-downloads"),
    "test_what_keeps_from_fetching_is_said": Double(suite(Sulky), "why nothing can be fetched\ncame: ' '"),
    "test_the_second_time_it_leads_to_the_same": Double(
        suite(Twice), "model\ncame: .*model.another\nreference: shop:m"
    ),
    "test_fetching_is_said": Double(suite(Silent), r"at least one line\ncame: \[\]"),
    "test_an_unknown_reference_is_named": Double(
        suite(Vague), "'nothing'\ncame: .*no such model.*\nreference: shop:no"
    ),
    "test_a_failure_leaves_nothing_behind": Double(suite(Untidy), r"no files\ncame: \['nothing'\]"),
}


def test_a_suite_without_publish_says_what_to_give(verdict):
    caught = verdict(SuiteWithoutPublish, "test_fetching_is_said")
    assert "must give publish(folder, monkeypatch)" in caught["test_fetching_is_said"]
