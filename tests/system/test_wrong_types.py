"""What can't name a process or a run is refused by its type, in words that say what to pass."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from holdfast import AsyncRuns, HoldfastError, ProcessIdentity, Runs, send_signal, stop_tree
from holdfast.errors import InvalidOption, WrongType

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


@pytest.mark.parametrize("value", ["soon", [1], True, float("nan"), {}])
def test_a_time_that_is_none_is_refused_by_the_name_of_the_argument(
    holdfast_runs: Runs, value: Any
):
    run = holdfast_runs.start(["true"])
    run.wait(30)
    for argument, call in (
        ("timeout", lambda: run.wait(timeout=value)),
        ("timeout", lambda: holdfast_runs.wait([run], timeout=value)),
        ("grace", lambda: run.stop(grace=value)),
        ("since", lambda: holdfast_runs.list(since=value)),
    ):
        with pytest.raises(InvalidOption, match=f"^{argument}: ") as refused:
            call()
        assert refused.value.fields["option"] == argument


def test_a_time_may_be_a_text_as_it_is_for_a_start(holdfast_runs: Runs):
    run = holdfast_runs.start(["sleep", "600"], timeout="10m")
    assert run.wait(timeout="0.01s").state == "running"
    assert run.stop(grace="1s").complete is not False
