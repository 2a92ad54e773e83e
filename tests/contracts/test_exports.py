"""The public names, pinned: adding one is a decision, losing one breaks a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

PUBLIC = [
    "AlreadyRunning",
    "AsyncRun",
    "AsyncRuns",
    "Chunk",
    "Cleanup",
    "Delivery",
    "EndedBy",
    "Event",
    "Failed",
    "Fate",
    "HoldfastError",
    "IdentityUnproven",
    "Kind",
    "Look",
    "Loss",
    "NotFound",
    "Outcome",
    "PidFile",
    "ProcessGone",
    "ProcessIdentity",
    "ProcessInfo",
    "Proof",
    "Recovered",
    "Refused",
    "Run",
    "RunInfo",
    "RunNotFound",
    "Runs",
    "State",
    "StillAlive",
    "StopCause",
    "Survivor",
    "Unavailable",
    "Verdict",
    "WrongUse",
    "send_signal",
    "stop_tree",
]


def test_public_names_are_pinned():
    assert holdfast.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_had(name):
    value = getattr(holdfast, name)
    assert value.__name__ == name
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonesuch'"):
        holdfast.Nonesuch  # noqa: B018


def test_importing_the_package_loads_none_of_its_modules():
    ask = "import sys, holdfast; print(*(m for m in sys.modules if m.startswith('holdfast.')))"
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
