"""Deeds to shims that only tests do."""

from __future__ import annotations

import signal

from holdfast.manage.run import Run
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from tests.support.waiting import wait_until_reaped


def kill_shim(run: Run) -> ProcessIdentity:
    """`kill -9` the run's shim, and see it gone."""
    document = run.info().shim
    assert document is not None
    shim = ProcessIdentity.from_json(document)
    assert send_signal(shim, signal.SIGKILL).delivered
    assert shim.wait(60)
    return shim


def kill_workload(run: Run) -> ProcessIdentity:
    """`kill -9` the workload of a run without a shim, and see it gone."""
    document = run.info().workload
    assert document is not None
    workload = ProcessIdentity.from_json(document)
    assert send_signal(workload, signal.SIGKILL).delivered
    assert workload.wait(60)
    # Until it is reaped, by whoever is its parent now, the zombie tells how it ended.
    wait_until_reaped(workload.pid)
    return workload
