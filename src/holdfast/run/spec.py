"""What was asked of a run: written once, before anything starts, and never changed.

It holds the whole environment for exec, so its file is private. What others may see is
`Wanted.to_json()` and `RunSpec.public_command`. It knows no observed facts.
"""

from __future__ import annotations

from holdfast.errors import InvalidOption, LaterVersion
from holdfast.record import Record
from holdfast.run.names import is_id, valid_name
from holdfast.run.strict import damaged, mismatch, read_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SCHEMA = 1
LONGEST_SECONDS = 36500 * 86400.0  # a century: beyond it a timer's arithmetic means nothing
LARGEST_BYTES = 2**62


class Wanted(Record):
    """The limits and manners that were asked for. None: not asked."""

    timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    done_when: str | None = None
    drain_seconds: float | None = None  # not asked: the agent's, or 5
    grace_seconds: float = 10.0
    stop_signal: str = "SIGTERM"
    memory_max_bytes: int | None = None
    restart: str = "no"  # or on-failure, on-failure:N
    leftovers: str = "stop"  # or keep
    workload: str | None = None
    require_workload: bool = False
    resolve_seconds: float = 2.0  # how long a required workload may take to appear
    sample_interval_seconds: float = 5.0
    split_stderr: bool = False
    log_max_bytes: int | None = None
    notify: str | None = None
    stdin: str = "null"  # or pipe, file
    independent: bool = False

    def check(self) -> Wanted:
        """Itself, or InvalidOption that names the first option that can't be used."""
        for name, annotation in Wanted.__annotations__.items():
            value = getattr(self, name)
            if value is Wanted._defaults[name]:
                continue  # not asked for
            expected = mismatch(annotation, value)
            if expected is None and value is not None and name in _LIMITS:
                fits, expected_value = _LIMITS[name]
                expected = None if fits(value) else expected_value
            if expected is not None:
                raise _unusable(name, value, expected)
        return self

    @property
    def restarts(self) -> int | None:
        """How many restarts are allowed; None: any number."""
        policy, _, count = self.restart.partition(":")
        if policy == "no":
            return 0
        return int(count) if count else None

    def to_json(self) -> dict[str, Any]:
        """The contract's `wanted`, fit to be shown."""
        document = self.as_dict()
        if self.notify is not None:
            from holdfast.run.redaction import redact_text

            document["notify"] = redact_text(self.notify)
        return document


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
    schema: int = SCHEMA

    @property
    def public_command(self) -> list[str]:
        """The command with secrets replaced."""
        from holdfast.run.redaction import redact_argv

        return redact_argv(self.command)

    def to_json(self) -> dict[str, Any]:
        """Everything, secrets too: for spec.json alone."""
        return {
            "schema": self.schema,
            **self.as_dict(),
            "command": list(self.command),
            "wanted": self.wanted.as_dict(),
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
        wanted = read_fields(Wanted, fields["wanted"], f"{what}'s wanted")
        fields["wanted"] = Wanted(**wanted)
        return cls(**fields)


def _positive(seconds: float) -> bool:
    return 0 < seconds <= LONGEST_SECONDS


def _not_negative(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_SECONDS


def _is_size(size: int) -> bool:
    return 0 < size <= LARGEST_BYTES


def _is_pattern(text: str) -> bool:
    import re

    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_restart_policy(text: str) -> bool:
    policy, colon, count = text.partition(":")
    counted = count.isascii() and count.isdigit() and len(count) <= 9
    return text == "no" or (policy == "on-failure" and counted == bool(colon))


def _is_signal(text: str) -> bool:
    from holdfast.process.signals import parse_signal

    try:
        parse_signal(text)
    except InvalidOption:
        return False
    return True


_LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "timeout_seconds": (_positive, "more than 0 and at most 36500d"),
    "idle_timeout_seconds": (_positive, "more than 0 and at most 36500d"),
    "done_when": (_is_pattern, "a regular expression"),
    "drain_seconds": (_not_negative, "from 0 to 36500d"),
    "grace_seconds": (_not_negative, "from 0 to 36500d"),
    "stop_signal": (_is_signal, "the name of a signal"),
    "memory_max_bytes": (_is_size, "more than 0 and below 4096P"),
    "restart": (_is_restart_policy, "no or on-failure[:N]"),
    "leftovers": (("stop", "keep").__contains__, "stop or keep"),
    "workload": (bool, "the name of a program"),
    "resolve_seconds": (_not_negative, "from 0 to 36500d"),
    "sample_interval_seconds": (_not_negative, "from 0 (no samples) to 36500d"),
    "log_max_bytes": (_is_size, "more than 0 and below 4096P"),
    "stdin": (("null", "pipe", "file").__contains__, "null, pipe or file"),
}


def _unusable(name: str, value: object, expected: str) -> InvalidOption:
    option = name.removesuffix("_seconds").removesuffix("_bytes").replace("_", "-")
    return InvalidOption(
        f"--{option}: {value!r} is not {expected}", option=option, value=value, expected=expected
    )
