"""What is asked of a node: the whole of it, for the way there alone.

It may hold secrets (values of `env`, what is copied to stdin), so it is never stored on the way:
the ledger gets `public()`. Paths are the node's. Values are checked here as far as they do not
depend on the node, so that a mistake is told before anything is placed.
"""

from __future__ import annotations

import binascii
import os

from holdfast.errors import InvalidOption, WrongUse, argument
from holdfast.fleet.placement import Resources
from holdfast.manage.queueing.values import OFF
from holdfast.manage.starting.request import StartRequest, read_value
from holdfast.options import OPTIONS, PLACING
from holdfast.record import Record
from holdfast.run.queueing.disk import AUTO
from holdfast.run.redaction import REDACTED, redact_argv, redact_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    Json = dict[str, Any]

START, RESUME, RERUN = "start", "resume", "rerun"
_OF_THE_NODE = (  # only it can look at them
    *("agent", "cwd", "stdin", "secret_env_file", "worktree", "worktree_setup"),
)
_WITH_TEXT = ("notify", "worktree_setup")
_REFUSED = ("after", "after_any")  # runs that the node may not know


class FleetRequest(Record):
    """One run that is asked for: a command, or an earlier run that is to go on or be repeated."""

    do: str
    name: str
    argv: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # keywords of `start`, as JSON has them
    of: str | None = None  # the id of the earlier run
    prompt: str | None = None  # the next one, of a session that is resumed
    resources: dict[str, Any] = {}  # for the engine
    on_node: str | None = None  # the node that the earlier run was on
    on_host: str | None = None  # as its engine calls it

    @classmethod
    def start(cls, argv: Sequence[str], options: Mapping[str, Any], resources: Resources) -> Self:
        """From the keywords of the library's `start`; InvalidOption for what no node could use."""
        asked = _checked(argv, options)
        set_aside = {name: value for name, value in resources.as_dict().items() if value}
        return cls(START, asked.name, asked.command, _plain_options(options), resources=set_aside)

    @classmethod
    def rerun(cls, of: str, name: str, changes: Mapping[str, Any]) -> Self:
        """The same command again, with changes."""
        _checked(("true",), changes)
        return cls(RERUN, name, options=_plain_options(changes), of=of)

    def to_json(self) -> Json:
        """For the node."""
        return {**self.as_dict(), "argv": list(self.argv)}

    @classmethod
    def from_json(cls, document: Json) -> Self:
        """On the node; what it does not know is an option of a later version."""
        fields = {name: document[name] for name in cls._fields if name in document}
        return cls(**{**fields, "argv": tuple(fields.get("argv", ()))})

    def public(self) -> Json:
        """For the ledger: what may be a secret is replaced."""
        options = {name: _public(name, value) for name, value in self.options.items()}
        prompt = None if self.prompt is None else redact_text(self.prompt)
        shown = self.replace(argv=tuple(redact_argv(self.argv)), options=options, prompt=prompt)
        return shown.to_json()

    @property
    def is_public(self) -> bool:
        """Whether nothing had to be replaced: then the ledger's copy can be started."""
        return self.public() == self.to_json()

    def keywords(self) -> Json:
        """The keywords of the library's `start`, on the node."""
        options = dict(self.options)
        if isinstance(options.get("stdin"), dict):
            options["stdin"] = binascii.a2b_base64(options["stdin"]["base64"])
        return options


def take_resources(options: dict[str, Any]) -> tuple[str | None, Resources]:
    """Take WHERE and what is to be set aside there out of the keywords of a start."""
    found = {name: options.pop(name) for name in PLACING if options.get(name) is not None}
    where = found.pop("on", None)
    if where is None:
        for name in found:
            raise WrongUse(
                f"{argument(name)} is about runs on other machines",
                hint=f"give {argument('on')} too, or leave it out",
            )
        return None, Resources()
    found.update(_memory_to_set_aside(options))
    values = {name: read_value(OPTIONS[name], found.get(name), argument(name)) for name in found}
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidOption(
                f"{argument(name)}: {found[name]!r} is not a number from 1 up",
                option=name,
                value=found[name],
            )
    return str(where), Resources(values.get("cpus"), values.get("needs_memory"), values.get("gpus"))


def _memory_to_set_aside(options: dict[str, Any]) -> dict[str, Any]:
    """What the engine is asked for. With a queue of the node the run waits for it there, too."""
    need = options.get("needs_memory")
    is_queued = options.get("queue") is not None
    if not is_queued:
        options.pop("needs_memory", None)
    if need in (None, AUTO, OFF):
        if need == AUTO and not is_queued:
            raise InvalidOption(
                f"{argument('needs_memory')}: {need!r} is not a size that can be set aside",
                hint=f"give a size; {AUTO} is for {argument('queue')}, where the node learns it",
                option="needs-memory",
                value=need,
            )
        return {}
    return {"needs_memory": need}


def _checked(argv: Sequence[str], options: Mapping[str, Any]) -> StartRequest:
    """By the rules of a local start, but for what only the node can look at."""
    checked = {name: value for name, value in options.items() if name not in _OF_THE_NODE}
    _refuse(options)
    return StartRequest(argv, **{**checked, "stdin": _kind_of_stdin(options.get("stdin"))})


def _plain_options(options: Mapping[str, Any]) -> Json:
    """As JSON has them. The key is the ledger's, the name is kept beside them."""
    return {
        name: _plain(name, value)
        for name, value in options.items()
        if name not in ("key", "name") and value is not None and value is not False
    }


def _refuse(options: Mapping[str, Any]) -> None:
    for name in _REFUSED:
        if options.get(name):
            raise WrongUse(
                f"{argument(name)}: which runs the node has is not known here",
                hint=f"leave out {argument(name)}; a queue of the node orders its runs",
            )


def _kind_of_stdin(stdin: Any) -> Any:
    """Only whether there is one: the file is the node's."""
    return stdin if stdin is None or stdin == "pipe" else b""


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return {"base64": binascii.b2a_base64(value, newline=False).decode("ascii")}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name in ("env", "tags", "given_by"):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _public(name: str, value: Any) -> Any:
    if name == "env":
        return {variable: one if one is None else REDACTED for variable, one in value.items()}
    if name == "stdin" and isinstance(value, dict):
        return {"base64": REDACTED}
    return redact_text(value) if name in _WITH_TEXT and isinstance(value, str) else value
