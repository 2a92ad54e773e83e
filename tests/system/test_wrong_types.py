"""What can't name a process or a run is refused by its type, in words that say what to pass."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from holdfast import AsyncRuns, HoldfastError, ProcessIdentity, Runs, send_signal, stop_tree
from holdfast.errors import WrongType

NUMBERS: list[Any] = [5, 0, -1, True, 1.5, None, "4242", [1]]


@pytest.mark.parametrize("target", NUMBERS)
def test_a_tree_is_stopped_by_identity_never_by_number(target):
    with pytest.raises(WrongType, match="stop_tree takes a ProcessIdentity, not ") as refused:
        stop_tree(target)
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, HoldfastError)
    assert "ProcessIdentity.of(pid)" in str(refused.value.hint)


def test_so_is_the_reaper_of_a_tree():
    ours: Any = os.getpid()
    with pytest.raises(WrongType, match="reaper of stop_tree takes a ProcessIdentity, not int"):
        stop_tree(ProcessIdentity.current(), reaper=ours)


@pytest.mark.parametrize("target", NUMBERS)
def test_so_is_whoever_is_signalled(target):
    with pytest.raises(WrongType, match="send_signal takes a ProcessIdentity"):
        send_signal(target, 0)


@pytest.mark.parametrize("reference", [5, 0, True, 1.5, None, b"name", ["name"]])
def test_a_run_is_named_by_a_text(holdfast_runs: Runs, reference: Any):
    with pytest.raises(WrongType, match="a run is named by a str, not ") as refused:
        holdfast_runs.get(reference)
    assert refused.value.exit_code == 2
    assert "name" in str(refused.value.hint)
    with pytest.raises(WrongType):
        holdfast_runs.wait([reference])
    with pytest.raises(WrongType):
        asyncio.run(AsyncRuns(holdfast_runs.home.path).get(reference))
