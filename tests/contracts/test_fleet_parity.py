"""A run elsewhere has every method that a run here has, none of them by accident."""

from __future__ import annotations

import inspect

import pytest

from holdfast.fleet.aio import AsyncRemoteRun
from holdfast.fleet.remote import RemoteRun
from holdfast.manage.aio import AsyncRun
from holdfast.manage.run import Run

# Made of other methods: what they do is right for both.
SHARED = {RemoteRun: {"lines"}, AsyncRemoteRun: {"id", "directory"}}


def inherited(there: type, here: type) -> list[str]:
    """Public members that would act on a directory which is not there."""
    names = (name for name in vars(here) if not name.startswith("_"))
    return [name for name in names if name not in vars(there) and name not in SHARED.get(there, ())]


@pytest.mark.parametrize(("there", "here"), [(RemoteRun, Run), (AsyncRemoteRun, AsyncRun)])
def test_every_method_has_its_own_form_for_runs_elsewhere(there, here):
    assert inherited(there, here) == []


@pytest.mark.parametrize(("there", "here"), [(RemoteRun, Run), (AsyncRemoteRun, AsyncRun)])
def test_they_take_the_same_arguments(there, here):
    for name, method in vars(here).items():
        if inspect.isfunction(method) and not name.startswith("_") and name in vars(there):
            ours = list(inspect.signature(method).parameters)
            assert list(inspect.signature(vars(there)[name]).parameters) == ours, name


def test_the_check_can_fail():
    class Half(Run):
        def info(self):
            raise NotImplementedError

    assert "stop" in inherited(Half, Run)
    assert "info" not in inherited(Half, Run)
