"""From the arguments of `start` to a spec: all are checked before anything is made."""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, WrongUse, argument
from holdfast.option_type import Option
from holdfast.options import OPTIONS, WAITING, Wanted, wanted_options
from holdfast.process import this_host
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.this_host import STAMP, STAMP_HOME, absolute
from holdfast.record import Record
from holdfast.run.checked_json import mismatch
from holdfast.run.names import check_key, check_name, default_name, is_id
from holdfast.run.spec import RunSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.run.home import Home

# For tests, and for a --notify command that starts a run: not for the workload.
_NOT_INHERITED = (
    "",  # `env =x cmd` makes one; Python's exec does not pass it on
    "HOLDFAST_NOTICE_OF",
    "HOLDFAST_CRASH_AT",
    "HOLDFAST_CRASH_LOG",
    "HOLDFAST_HOLD_AT",
    "HOLDFAST_HOLD_CALLBACK",
    "HOLDFAST_HOLD_FIFO",
)


class GivenId(Record):
    """The id that a run has to have, because it was placed here from elsewhere."""

    id: str
    key: str | None  # of the submitter's ledger; it claims nothing here
    placement: dict[str, Any] | None  # what the spec keeps of it


class StartRequest:
    """The checked arguments of `start`. Attributes have the names of the library's keywords."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        key: str | None = None,
        stdin: str | os.PathLike[str] | bytes | None = None,
        replace: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        tags: Mapping[str, str] | None = None,
        agent: str = "auto",
        pty: bool = False,
        worktree: str | None = None,
        worktree_setup: str | None = None,
        resumed_from: str | None = None,
        given_by: Mapping[str, str] | None = None,
        given: GivenId | None = None,
        **options: Any,
    ) -> None:
        self.given = given
        self.command = _command(argv)
        self.name = default_name(self.command)
        if name is not None:
            self.name = check_name(_fitting(name, "name", "str"))
        self.key = check_key(_fitting(key, "key", "str | None"))
        self.stdin = _stdin(stdin)
        self.replace = _fitting(replace, "replace", "bool")
        self.cwd = absolute(_path(cwd, "cwd") if cwd is not None else ".")
        self.env = _environment_changes(env)
        self.tags = check_tags(tags)
        self.pty = _fitting(pty, "pty", "bool")
        self.worktree = _fitting(worktree, "worktree", "str | None")
        self.resumed_from = resumed_from
        self.given_by = dict(given_by) if given_by else None
        self.worktree_setup = self._setup(_fitting(worktree_setup, "worktree_setup", "str | None"))
        self.waiting = {name: options.pop(name) for name in WAITING if name in options}
        self.wanted = _wanted(options, stdin)
        self.warning = _check_secrets(self.wanted.secret_env_file)
        if self.waiting:
            self.waiting = _waiting(self.waiting)
        if self.pty and self.wanted.split_stderr:
            raise InvalidOption(
                f"{argument('split_stderr')}: a terminal has one stream for stdout and stderr",
                hint=f"leave out {argument('pty')} or {argument('split_stderr')}",
                option="split-stderr",
                value=True,
                expected=f"without {argument('pty')}",
            )
        self.agent = _agent(_fitting(agent, "agent", "str"), self.command)
        self.added: dict[str, Any] | None = None
        if self.wanted.max_tokens is not None or self.wanted.max_cost_usd is not None:
            from holdfast.manage.starting.added_words import hold_budget

            hold_budget(self)
        is_reporting = self.agent is not None and self.wanted.agent_hooks != "off"
        if is_reporting or self.wanted.approve != "off":
            from holdfast.manage.starting.handed_hooks import hand_hooks

            hand_hooks(self)
        if self.wanted.limit_resumes:
            from holdfast.manage.starting.after_limit import hold_on_limit

            hold_on_limit(self)

    def _setup(self, given: str | None) -> str | None:
        """One of config.toml is for runs with a worktree alone; an empty one means none."""
        if not given:
            return None
        _passable(given, "worktree_setup")
        if self.worktree is not None:
            return given
        if (self.given_by or {}).pop("worktree_setup", None) is None:
            raise InvalidOption(
                f"{argument('worktree_setup')} is for a new worktree, and none is asked for",
                hint=f"add {argument('worktree')} BRANCH",
                option="worktree-setup",
                value=given,
            )
        return None

    def spec(
        self,
        home: Home,
        run_id: str,
        stdin_path: str | None,
        *,
        cwd: str,
        worktree: dict[str, Any] | None,
        waits: dict[str, Any] | None = None,
    ) -> RunSpec:
        """What is written before anything starts; `cwd` lies in the worktree, if one was made."""
        outer = os.environ.get(STAMP)
        return RunSpec(
            id=run_id,
            name=self.name,
            host=this_host.place().host,
            command=self.command,
            cwd=cwd,
            env={**self._environment(home.path, run_id), "PWD": cwd},
            agent=self.agent,
            tags=self.tags,
            key=self.key if self.given is None else self.given.key,
            pty=self.pty,
            wanted=self.wanted,
            created_at=wall_clock(),
            launcher=ProcessIdentity.current().to_json(),
            started_in=outer if outer is not None and is_id(outer) else None,
            resumed_from=self.resumed_from,
            given_by=self.given_by,
            placement=None if self.given is None else self.given.placement,
            waits=waits,
            worktree=worktree,
            stdin_path=stdin_path,
            window=window() or None if self.pty else None,
            added=self.added,
        )

    def _environment(self, home_path: str, run_id: str) -> dict[str, str]:
        """Our environment without agents' session variables, with `env` applied, and stamped."""
        from holdfast.agents.recognition import strip_environment

        environment = dict(strip_environment(os.environ))
        for name in _NOT_INHERITED:
            environment.pop(name, None)
        for name, value in self.env.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        if self.worktree is not None:
            from holdfast.manage.worktrees.git import REPOSITORY_VARIABLES

            # A git hook that starts a run has these set: git would act on the hook's checkout.
            for name in REPOSITORY_VARIABLES - self.env.keys():
                environment.pop(name, None)
        stamp = {STAMP: run_id, STAMP_HOME: home_path}
        environment.update((self.added or {}).get("variables", {}))
        return {**environment, **stamp, "HOLDFAST_HOME": home_path}


def window() -> dict[str, int]:
    """The size of our own window, which a run's terminal is given; empty: there is none."""
    for fd in (1, 0, 2):
        try:
            size = os.get_terminal_size(fd)
        except OSError:  # not a terminal
            continue
        if size.lines and size.columns:
            return {"rows": size.lines, "columns": size.columns}
    return {}


def _wanted(options: Mapping[str, Any], stdin: object) -> Wanted:
    fields: dict[str, Any] = {}
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None or not option.field:
            known = ", ".join(option.name for option in wanted_options())
            raise WrongUse(f"start has no option {name!r}", hint=f"it has {known}")
        if value is not None:
            fields[option.field] = read_value(option, value, argument(name))
    kind = "null" if stdin is None else "pipe" if stdin == "pipe" else "file"
    wanted = Wanted(**fields, stdin=kind)
    if fields:
        from holdfast.manage.starting.option_values import check_wanted

        check_wanted(wanted)
    return wanted


def _check_secrets(path: str | None) -> str:
    """That the file of secrets can be read; what people should know about it, or ""."""
    if path is None:
        return ""
    from holdfast.env_file import read_secret_env_file, who_else_reads

    read_secret_env_file(path)  # looked at, and not kept
    return who_else_reads(path)


def _waiting(options: dict[str, Any]) -> dict[str, Any]:
    """What it is to wait for, checked: `manage/queueing/submission.py` makes ids and instants."""
    from holdfast.manage.starting.option_values import kind_of, unusable

    read = {}
    for name, value in options.items():
        option = OPTIONS[name]
        if value is not None:
            given = argument(name)
            label = option.flags[-1] if given.startswith("--") else given
            read[name] = read_value(option, value, label)
            kind = kind_of(option)
            if kind.fits is not None and not kind.fits(read[name]):
                raise unusable(label.removeprefix("--"), value, kind.expected)
    return read


def read_value(option: Option, value: Any, label: str) -> Any:
    """What a caller gave for an option, as it is stored; `label` names the option in errors."""
    from holdfast.manage.starting.option_values import kind_of

    read = kind_of(option).read
    return _passable(value, label.removeprefix("--")) if read is None else read(value, label)


def check_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Tags as they are stored; InvalidOption for what is not K=V."""
    return _pairs(tags, "tag")


def _environment_changes(env: Mapping[str, str | None] | None) -> dict[str, str | None]:
    changes = _mapping(env, "env")
    _pairs({name: value for name, value in changes.items() if value is not None}, "env")
    return changes


def _pairs(given: Any, option: str) -> dict[str, str]:
    pairs = _mapping(given, option)
    for name, value in pairs.items():
        for text in (name, value):
            if not isinstance(text, str):
                # Never the value itself: of an environment it may be a secret.
                what = f"{name!r}: {type(text).__name__}"
                raise _unusable(option, text, "a text", what=what)
        if not name or "=" in name:
            raise _unusable(option, name, "K of K=V: not empty, and without =")
    _passable("".join((*pairs, *pairs.values())), option)
    return pairs


def _mapping(given: Any, option: str) -> dict[Any, Any]:
    try:
        return dict(given if given is not None else ())
    except (TypeError, ValueError):
        raise _unusable(option, given, "a mapping of texts") from None


def _command(argv: Any) -> tuple[str, ...]:
    expected = "a list of words such as ['sleep', '60']"
    if isinstance(argv, (str, bytes)):
        raise _unusable("argv", argv, expected, what="one text")
    try:
        command = tuple(os.fspath(word) for word in argv)
    except TypeError:
        raise _unusable("argv", argv, expected, what=_kinds(argv)) from None
    if not command:
        raise InvalidOption(
            "there is no command to run",
            hint="holdfast run [options] CMD [ARG...]",
            option="argv",
            value=argv,
            expected=expected,
        )
    if mismatch("tuple[str, ...]", command) is not None:
        raise _unusable("argv", argv, expected, what=_kinds(command))
    _passable("".join(command), "argv")
    return command


def _kinds(words: Any) -> str:
    """For people, instead of the words themselves, which may hold secrets."""
    if not isinstance(words, (list, tuple)):
        return type(words).__name__
    return f"a list of {', '.join(sorted({type(word).__name__ for word in words}))}"


def _stdin(stdin: Any) -> str | bytes | None:
    if stdin is None or isinstance(stdin, bytes):
        return stdin
    path = _path(stdin, "stdin", 'a path, bytes, or "pipe"')
    if path != "pipe" and _is_fifo(path):
        raise InvalidOption(
            f"{argument('stdin')}: {path} is a FIFO: the run would wait for a writer first",
            hint=f"{_copied_in(path)}; {argument('stdin', 'pipe')} takes input from `send`",
            option="stdin",
            value=path,
            expected="a file",
        )
    return path


def _copied_in(path: str) -> str:
    copy = argument("stdin", "-")
    return f"{copy} < {path} copies it in" if copy[0] == "-" else "read it, and give the bytes"


def _is_fifo(path: str) -> bool:
    import stat

    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:  # the open reports what is wrong
        return False


def _path(given: Any, option: str, expected: str = "a path") -> str:
    try:
        path = os.fspath(given)
    except TypeError:
        path = None
    if not isinstance(path, str) or not path:
        raise _unusable(option, given, expected)
    _passable(path, option)
    return path


def _fitting(value: Any, option: str, annotation: str) -> Any:
    """The value, if it fits its type in the spec, and can be read back."""
    expected = mismatch(annotation, value)
    if expected is not None:
        raise _unusable(option, value, expected)
    return _passable(value, option)


def _passable(value: Any, option: str) -> Any:
    """The value; a text only if a command, an environment or a path could hold it."""
    if isinstance(value, str):
        try:
            encoded = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            expected = "a text without lone surrogates"
            raise _unusable(option, value, expected, what="a text") from None
        if b"\0" in encoded:
            raise _unusable(option, value, "a text without a zero byte", what="a text")
    return value


def _unusable(
    option: str, value: object, expected: str, *, what: str | None = None
) -> InvalidOption:
    from holdfast.manage.starting.option_values import unusable

    return unusable(option, value, expected, what=what)


def _agent(agent: str, command: tuple[str, ...]) -> str | None:
    if agent == "none":
        return None
    if agent == "auto":
        from holdfast.agents.recognition import recognise

        return recognise(command)
    from holdfast.agents.loader import load_profile

    return load_profile(agent).name
