"""Options that several commands share."""

from __future__ import annotations

import os

import pytest

from truecluster._cli.options import let_idle_threads_sleep


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "1000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
    ids=["default", "user's count", "user's policy"],
)
def test_idle_threads_sleep_soon_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: dict[str, str]
) -> None:
    environment = dict(before)
    monkeypatch.setattr(os, "environ", environment)
    let_idle_threads_sleep()
    assert environment == after
