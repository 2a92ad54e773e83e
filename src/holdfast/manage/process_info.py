"""A process of a run as a record: the contract's PROCESS, with typed verdict and state."""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.verdict import Verdict
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Json = dict[str, Any]


class ProcessInfo(Record):
    """Who it is, what it is, and what it does, at the time of the look. None: not known.

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
