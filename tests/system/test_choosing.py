"""What commands act on is what a listing with the same selectors shows."""

from __future__ import annotations

import pytest

from holdfast.manage.choosing import choose_selected
from holdfast.manage.listing import list_runs
from holdfast.manage.selection import Selection
from tests.support.shims import kill_shim


@pytest.fixture
def crowd(runs):
    """Two that are supervised, one whose shim is gone, one that has ended."""
    for name, tags in (("Alpha", {"k": "v"}), ("beta", {}), ("gamma", {"k": "w", "keep": ""})):
        runs.start(["sleep", "600"], name=name, tags=tags)
    runs.start(["true"], name="delta", tags={"k": "v"}).wait(60)
    kill_shim(runs.get("gamma"))
    return runs


@pytest.mark.parametrize(
    "selectors",
    [
        {},
        {"tags": {"k": None}},
        {"tags": {"k": ("v", "x")}},
        {"name": "*A*"},
        {"name": "alpha"},
        {"agent": "claude"},
        {"state": "orphaned"},
        {"active": False},
    ],
)
def test_a_command_acts_on_what_a_listing_shows(crowd, selectors):
    selection = Selection.of(**selectors).or_active(True)
    listed = list_runs(crowd.home, selection)[::-1]
    assert [one.run.id for one in choose_selected(crowd, selection) if one.run] == [
        info.id for info in listed
    ]
    kept = [one.name for one in choose_selected(crowd, selection, but="keep")]
    assert kept == [info.name for info in listed if "keep" not in info.tags]
