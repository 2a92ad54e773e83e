"""Tests what this machine can prove and enforce.

It starts a few short-lived children and signals only those. Some checks change the process that
they run in (a thread, a subreaper): the library has them done by a process of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess

from holdfast.errors import HoldfastError
from holdfast.lean import json_text, read_json
from holdfast.manage.doctor import kernel, machine
from holdfast.manage.doctor.findings import DoctorFinding, FindingStatus, failed
from holdfast.process import this_host
from holdfast.record import Record
from holdfast.run.atomic_files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from holdfast.agents.installed import FoundAgent

    Probe = Callable[[], DoctorFinding]

_WAITS = f"read line; exit {kernel.CHILD_EXIT_CODE}"
_LEAVES_AN_ORPHAN = "sleep 60 >/dev/null 2>&1 & echo $!"


class Diagnosis(Record):
    """All that was found. `ok`: no guarantee is broken here."""

    ok: bool
    findings: tuple[DoctorFinding, ...]
    agents: tuple[FoundAgent, ...] | None = None  # None: not looked for

    @classmethod
    def of(
        cls, findings: Sequence[DoctorFinding], agents: Sequence[FoundAgent] | None = None
    ) -> Diagnosis:
        """What the findings add up to."""
        ok = all(finding.status is not FindingStatus.FAIL for finding in findings)
        return cls(ok, tuple(findings), None if agents is None else tuple(agents))

    def to_json(self) -> dict[str, Any]:
        """The document of `doctor --json`."""
        found = [finding.to_json() for finding in self.findings]
        document: dict[str, Any] = {"schema": 1, "ok": self.ok, "findings": found}
        if self.agents is None:
            return document
        agents = [{**one.as_dict(), "sees": one.sees.as_dict()} for one in self.agents]
        return {**document, "agents": agents}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Diagnosis:
        """Read it back."""
        findings = tuple(map(DoctorFinding.from_json, document["findings"]))
        return cls(document["ok"], findings, _agents_from(document.get("agents")))


def _agents_from(documents: Sequence[dict[str, Any]] | None) -> tuple[FoundAgent, ...] | None:
    if documents is None:
        return None
    from holdfast.agents.installed import FoundAgent, Visibility

    return tuple(FoundAgent(**{**one, "sees": Visibility(**one["sees"])}) for one in documents)


def examine(
    *, agents: bool = False, told: Callable[[DoctorFinding], None] = lambda _: None
) -> Diagnosis:
    """Try everything in this process; `told` gets each finding as it comes."""
    findings, installed = [], None
    for name, probe in probes():
        findings.append(try_one(name, probe))
        told(findings[-1])
    if agents:
        from holdfast.agents.installed import find_agents
        from holdfast.manage.doctor.agents import finding

        try:
            installed = find_agents()
        except HoldfastError as error:  # a profile with a mistake in it
            findings.append(failed("agents", error.message, error.hint))
            told(findings[-1])
        for agent in installed or ():
            told(finding(agent))
    return Diagnosis.of(findings, installed)


def main(home_path: str, agents: str, fd: int) -> None:
    """The checks of a home, in a process of their own; the document is written to `fd`."""
    os.environ["HOLDFAST_HOME"] = home_path
    document = examine(agents=agents == "agents").to_json()
    write_all(fd, json_text(document).encode("ascii"))


def read_diagnosis(text: bytes) -> Diagnosis:
    """What that process wrote."""
    return Diagnosis.from_json(read_json(text.decode("ascii")))


def probes() -> Iterator[tuple[str, Probe]]:
    """The checks, in the order shown. Each runs on its own: one that fails stops no other."""
    on_child = functools.partial
    yield "identity", on_child(kernel.identity, child)
    yield "signal", on_child(kernel.gate, child)
    if not this_host.is_portable():
        yield "exit", on_child(kernel.exit_status, child)
        yield "handle", on_child(kernel.handle, child)
        yield "ticks", on_child(kernel.ticks, child)
        yield "children", on_child(kernel.children, child)
        yield "subreaper", on_child(kernel.subreaper, orphan)
        yield "timer", kernel.timer
        yield "inotify", kernel.inotify
        yield "namespace", kernel.namespace
        yield "hidepid", kernel.hidden_processes
    yield "state", machine.state
    yield "abandoned", machine.abandoned
    yield "vanished", machine.vanished
    if not this_host.is_portable():
        yield "reserve", machine.reserve
        yield "logout", machine.logout
        yield "cgroup", machine.control_groups


def try_one(name: str, probe: Probe) -> DoctorFinding:
    """What a check found; one that can't be tried has failed."""
    try:
        return probe()
    except (HoldfastError, OSError, subprocess.SubprocessError) as error:
        return failed(name, f"could not be tried: {error}")


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A child that waits for the end of its stdin; gone when the block ends."""
    process = subprocess.Popen(["sh", "-c", _WAITS], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


def orphan() -> int:
    """A process whose parent has just exited."""
    parent = subprocess.run(
        ["sh", "-c", _LEAVES_AN_ORPHAN], stdout=subprocess.PIPE, check=True, timeout=10
    )
    return int(parent.stdout)
