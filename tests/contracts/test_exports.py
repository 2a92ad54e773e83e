"""The public names, pinned: adding one is a decision, losing one breaks a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

PUBLIC = [
    "Adjusted",
    "AlreadyRunning",
    "Archived",
    "AsyncRun",
    "AsyncRuns",
    "ChangedFile",
    "Chunk",
    "Cleaned",
    "Cleanup",
    "Delivery",
    "Diagnosis",
    "Diff",
    "Discarded",
    "DoctorFinding",
    "EndedBy",
    "Event",
    "Failed",
    "Fate",
    "HoldfastError",
    "IdentityUnproven",
    "InvalidOption",
    "Kind",
    "Look",
    "Loss",
    "NoAnswer",
    "NotFound",
    "Outcome",
    "PidFile",
    "ProcessGone",
    "ProcessIdentity",
    "ProcessInfo",
    "Proof",
    "Recovered",
    "Refused",
    "RemoteRun",
    "Removed",
    "Report",
    "Run",
    "RunInfo",
    "RunNotFound",
    "Runs",
    "State",
    "StillAlive",
    "StopCause",
    "Survivor",
    "Unavailable",
    "Usage",
    "UsageTotal",
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


def test_dir_lists_the_public_names_and_loads_nothing():
    ask = "import sys, holdfast; print(*dir(holdfast)); assert 'holdfast.manage' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == sorted([*PUBLIC, "__version__"])


@pytest.mark.parametrize(
    "kind", [holdfast.Runs, holdfast.Run, holdfast.AsyncRuns, holdfast.AsyncRun]
)
def test_nothing_inner_leaks_from_the_library(kind):
    shown = {name for name in dir(kind) if not name.startswith("_")}
    assert not {name for name in shown if name.endswith("_steps")} | shown & {"run_of", "plain"}
