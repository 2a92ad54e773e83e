"""A process of a run as a record: the contract's PROCESS, with typed verdict and state.

What was recorded of it, and what is to be seen of it now.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.held import hold_here
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.redaction import redact_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.process.verdict import Look

    Json = dict[str, Any]


class ProcessInfo(Record):
    """Which process it is, what it runs and does, at the time of the look. None: not known.

    The names of the JSON document lead to its values too: `workload["pid"]`.
    """

    pid: int
    start_ticks: int | None
    pidfd_inode: int | None
    pid_ns: int | None
    boot_id: str | None
    token: str
    verdict: Verdict | None  # None: not looked at
    comm: str | None
    exe: str | None
    cmdline: tuple[str, ...] | None
    state: ProcessState | None

    @classmethod
    def from_json(cls, document: Json) -> ProcessInfo:
        """Read PROCESS; words that are not known here are None."""
        values: Json = {name: document.get(name) for name in cls._fields}
        verdict, state, cmdline = values["verdict"], values["state"], values["cmdline"]
        values["verdict"] = Verdict(verdict) if verdict in tuple(Verdict) else None
        values["state"] = ProcessState(state) if state in tuple(ProcessState) else None
        values["cmdline"] = tuple(cmdline) if isinstance(cmdline, (list, tuple)) else None
        return cls(**values)

    def to_json(self) -> Json:
        """The contract's PROCESS."""
        document = self.as_dict()
        document["verdict"] = None if self.verdict is None else self.verdict.value
        document["state"] = None if self.state is None else self.state.value
        document["cmdline"] = None if self.cmdline is None else list(self.cmdline)
        return document

    @property
    def identity(self) -> ProcessIdentity:
        """What names it for good: to look at it again, to wait for it, to signal it."""
        return ProcessIdentity.parse(self.token)

    def __getitem__(self, name: str) -> Any:
        return self.to_json()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the JSON document."""
        return self.to_json().get(name, default)

    def keys(self) -> tuple[str, ...]:
        """The names of the JSON document."""
        return self._fields


def identity_json(recorded: Json, looks: dict[str, Look], closely: bool) -> Json:
    look = looks.get(recorded["token"])
    if look is None and closely:
        look = ProcessIdentity.from_json(recorded).look()
    return {**recorded, "verdict": None if look is None else look.verdict.value}


def process_json(recorded: Json, looks: dict[str, Look], closely: bool = True) -> Json:
    """The contract's PROCESS: what was recorded, and what is to be seen of it now."""
    document = identity_json(recorded, looks, closely)
    live: Json = {}
    if closely and document["verdict"] == Verdict.SAME.value:
        live = look_at_process(ProcessIdentity.from_json(recorded))
    names = ("comm", "exe", "cmdline", "state")
    return {**document, **{name: live.get(name, recorded.get(name)) for name in names}}


def process_info(
    recorded: Json, looks: dict[str, Look] | None = None, closely: bool = True
) -> ProcessInfo:
    """What was recorded of a process and is to be seen of it now, as a record."""
    if not closely and not looks:
        return _as_recorded(recorded)
    return ProcessInfo.from_json(process_json(recorded, looks or {}, closely))


def _as_recorded(recorded: Json) -> ProcessInfo:
    """The recorded values only, without a look at /proc; used by lists."""
    state, cmdline = recorded.get("state"), recorded.get("cmdline")
    return ProcessInfo(
        recorded["pid"],
        recorded["start_ticks"],
        recorded["pidfd_inode"],
        recorded["pid_ns"],
        recorded["boot_id"],
        recorded["token"],
        None,
        recorded.get("comm"),
        recorded.get("exe"),
        None if cmdline is None else tuple(cmdline),
        ProcessState(state) if state in tuple(ProcessState) else None,
    )


def look_at_process(identity: ProcessIdentity) -> Json:
    """Name, program, arguments and state of a process that is proven to be that one."""
    try:
        with hold_here(identity) as held:
            number = held.identity.pid  # which differs from the recorded one of a container
            stat = procfs.read_stat(number)
            live: Json = {
                "comm": stat.comm,
                "exe": procfs.executable(number),
                "cmdline": redact_argv(procfs.command_line(number)),
                "state": stat.state.value,
            }
            return {} if held.has_exited() else live
    except HoldfastError:  # it ended, or we may not look: what was recorded is all there is
        return {}
