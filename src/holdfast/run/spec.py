"""What was asked of a run: written once, before anything starts, and never changed.

It holds the whole environment for exec, so its file is private. What others may see is
`public_wanted` and `public_command`. It knows no observed facts.
"""

from __future__ import annotations

from holdfast.errors import LaterVersion
from holdfast.options import Wanted
from holdfast.record import Record
from holdfast.run.checked_json import damaged, read_fields
from holdfast.run.names import is_id, valid_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SCHEMA = 1


class RunSpec(Record):
    """One run as it was asked for."""

    id: str
    name: str
    host: str
    command: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    agent: str | None
    tags: dict[str, str]
    key: str | None
    pty: bool
    wanted: Wanted
    created_at: str
    launcher: dict[str, Any]  # IDENTITY of the process that asked
    started_in: str | None = None
    resumed_from: str | None = None
    worktree: dict[str, Any] | None = None  # where it was made for this run
    stdin_path: str | None = None  # what the workload reads, when wanted.stdin is "file"
    window: dict[str, Any] | None = None  # rows and columns of the caller's terminal, for a pty
    waits: dict[str, Any] | None = None  # what it waits for before it starts
    given_by: dict[str, str] | None = None  # which preset gave an option, or [defaults]
    added: dict[str, Any] | None = None  # words that Holdfast adds for the agent, and where
    placement: dict[str, Any] | None = None  # by whom it was placed here, and through which engine
    schema: int = SCHEMA

    @property
    def argv(self) -> tuple[str, ...]:
        """What is executed: the command, with the words that are added for the agent."""
        if self.added is None:
            return self.command
        at = int(self.added["at"])
        return (*self.command[:at], *self.added["words"], *self.command[at:])

    def adjusted(self, changes: dict[str, Any]) -> RunSpec:
        """With the limits that were changed since: by field of `wanted`."""
        if not changes:
            return self
        known = {name: value for name, value in changes.items() if name in Wanted._names}
        return self.replace(wanted=self.wanted.replace(**known)) if known else self

    def with_cost_left(self, used: float | None) -> RunSpec:
        """For another attempt: its agent is told what is left of the run's budget."""
        added, most = self.added or {}, self.wanted.max_cost_usd
        if not used or most is None or added.get("cost_at") is None:
            return self
        words = list(added["words"])
        words[added["cost_at"]] = dollars(max(most - used, 0.0))
        return self.replace(added={**added, "words": words})

    def resumed(self, command: Sequence[str]) -> RunSpec:
        """For an attempt that goes on with the agent's session: its prompt is in the command."""
        at = int((self.added or {}).get("at") or 0)
        if tuple(command[:at]) != self.command[:at]:
            raise ValueError("the words that are added for the agent have no place in it")
        stdin = "null" if self.wanted.stdin == "file" else self.wanted.stdin
        return self.replace(command=tuple(command), wanted=self.wanted.replace(stdin=stdin))

    @property
    def public_command(self) -> list[str]:
        """The command with secrets replaced."""
        from holdfast.run.redaction import redact_argv

        return redact_argv(self.command)

    @property
    def public_worktree(self) -> dict[str, Any] | None:
        """The contract's `worktree`, with secrets replaced in its setup."""
        if self.worktree is None or not isinstance(self.worktree.get("setup"), str):
            return self.worktree
        from holdfast.run.redaction import redact_text

        return {**self.worktree, "setup": redact_text(self.worktree["setup"])}

    @property
    def public_wanted(self) -> dict[str, Any]:
        """The contract's `wanted`, with secrets replaced."""
        document = self.wanted.as_dict()
        if self.wanted.notify is not None:
            from holdfast.run.redaction import redact_text

            document["notify"] = redact_text(self.wanted.notify)
        return document

    def to_json(self) -> dict[str, Any]:
        """Everything, secrets too: for spec.json alone."""
        fields = self.as_dict()
        for name in _LATER:
            if fields[name] is None:
                del fields[name]
        return {
            "schema": self.schema,
            **fields,
            "command": list(self.command),
            "wanted": _written(self.wanted),
        }

    @classmethod
    def from_json(cls, document: object, what: str = "the spec") -> RunSpec:
        """Read it back. LaterVersion, or DamagedRecord for anything but a whole spec."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise LaterVersion(
                f"{what} is of version {schema}; this Holdfast reads up to {SCHEMA}",
                hint="use the Holdfast that wrote it, or a newer one",
                schema=schema,
            )
        fields = read_fields(cls, document, what)
        if schema != SCHEMA or not is_id(fields["id"]) or not valid_name(fields["name"]):
            raise damaged(what, "has a schema, id or name that none could have")
        fields["command"] = tuple(fields["command"])
        fields["wanted"] = _read_wanted(fields["wanted"], what)
        return cls(**fields)


def _read_wanted(document: object, what: str) -> Wanted:
    """Most runs of a list were asked for in the same way: what was read last is not checked again.

    Compared as text: in Python 1, 1.0 and true are equal.
    """
    text = repr(document)
    wanted = _wanted_before.get(text)
    if wanted is None:
        wanted = Wanted(**read_fields(Wanted, document, f"{what}'s wanted"))
        _wanted_before.clear()
        _wanted_before[text] = wanted
    return wanted


_wanted_before: dict[str, Wanted] = {}


def dollars(amount: float) -> str:
    """As a word for an agent: without an exponent, and never 0."""
    return f"{max(amount, 1e-6):.6f}".rstrip("0").rstrip(".")


_LATER = (
    "added",
    "given_by",
    "placement",
    "waits",
)  # fields that 0.1.0 did not have: written only where they hold something


def _written(wanted: Wanted) -> dict[str, Any]:
    """What spec.json has of it: fields of later versions only where they were asked for.

    0.1.0 takes a spec with a field that it does not know for a later version's: so it can still
    read, stop and adopt each run that asks for nothing new.
    """
    first = {"timeout_seconds", "idle_timeout_seconds", "done_when", "drain_seconds"}
    first |= {"grace_seconds", "stop_signal", "memory_max_bytes", "restart", "leftovers"}
    first |= {"workload", "require_workload", "resolve_seconds", "sample_interval_seconds"}
    first |= {"split_stderr", "log_max_bytes", "notify", "stdin", "independent"}
    usual = wanted._defaults
    asked = wanted.as_dict().items()
    return {name: value for name, value in asked if name in first or value != usual[name]}
