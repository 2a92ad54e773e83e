"""From what a caller asks to a spec: options are checked here, before anything is made."""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, WrongUse
from holdfast.process import here
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import STAMP, STAMP_HOME
from holdfast.process.paths import absolute
from holdfast.run.names import check_name, default_name, is_id
from holdfast.run.quantities import parse_duration, parse_size
from holdfast.run.spec import RunSpec, Wanted
from holdfast.run.strict import mismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.run.home import Home

# Of the tests' own machinery, and of a notice that starts a run: not the workload's.
_NOT_INHERITED = (
    "",  # `env =x cmd` makes one; Python's exec passes no variable without a name on
    "HOLDFAST_NOTICE_OF",
    "HOLDFAST_CRASH_AT",
    "HOLDFAST_CRASH_LOG",
    "HOLDFAST_HOLD_AT",
    "HOLDFAST_HOLD_CALLBACK",
    "HOLDFAST_HOLD_FIFO",
)


def _seconds(value: Any, option: str) -> Any:
    if isinstance(value, str):
        return parse_duration(value, option)
    # What is no number, or too large for one, is refused with the rest.
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _bytes(value: Any, option: str) -> Any:
    return parse_size(value, option) if isinstance(value, str) else value


def _as_is(value: Any, option: str) -> Any:
    return _passable(value, option.removeprefix("--"))


# The library's options (and the keys of config.toml): the field of Wanted, and how it is read.
OPTIONS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "timeout": ("timeout_seconds", _seconds),
    "idle_timeout": ("idle_timeout_seconds", _seconds),
    "done_when": ("done_when", _as_is),
    "drain": ("drain_seconds", _seconds),
    "grace": ("grace_seconds", _seconds),
    "stop_signal": ("stop_signal", _as_is),
    "memory_max": ("memory_max_bytes", _bytes),
    "restart": ("restart", _as_is),
    "leftovers": ("leftovers", _as_is),
    "workload": ("workload", _as_is),
    "require_workload": ("require_workload", _as_is),
    "workload_within": ("resolve_seconds", _seconds),
    "sample_interval": ("sample_interval_seconds", _seconds),
    "split_stderr": ("split_stderr", _as_is),
    "log_max": ("log_max_bytes", _bytes),
    "notify": ("notify", _as_is),
    "independent": ("independent", _as_is),
}


class StartRequest:
    """What `start` was asked. Attributes have the names of the library's keywords."""

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
        resumed_from: str | None = None,
        **options: Any,
    ) -> None:
        self.command = _command(argv)
        self.name = default_name(self.command)
        if name is not None:
            self.name = check_name(_fitting(name, "name", "str"))
        self.key = _fitting(key, "key", "str | None")
        self.stdin = _stdin(stdin)
        self.replace = _fitting(replace, "replace", "bool")
        self.cwd = absolute(_path(cwd, "cwd") if cwd is not None else ".")
        self.env = _environment_changes(env)
        self.tags = check_tags(tags)
        self.pty = _fitting(pty, "pty", "bool")
        self.worktree = _fitting(worktree, "worktree", "str | None")
        self.resumed_from = resumed_from
        self.wanted = _wanted(options, stdin)
        if self.pty and self.wanted.split_stderr:
            raise InvalidOption(
                "--split-stderr: a terminal has one stream for stdout and stderr",
                hint="leave out --pty or --split-stderr",
                option="split-stderr",
                value=True,
                expected="without --pty",
            )
        self.agent = _agent(_fitting(agent, "agent", "str"), self.command)

    def spec(
        self,
        home: Home,
        run_id: str,
        stdin_path: str | None,
        *,
        cwd: str,
        worktree: dict[str, Any] | None,
    ) -> RunSpec:
        """What is written before anything starts; `cwd` lies in the worktree, if one was made."""
        outer = os.environ.get(STAMP)
        return RunSpec(
            id=run_id,
            name=self.name,
            host=here.place().host,
            command=self.command,
            cwd=cwd,
            env={**self._environment(home.path, run_id), "PWD": cwd},
            agent=self.agent,
            tags=self.tags,
            key=self.key,
            pty=self.pty,
            wanted=self.wanted,
            created_at=wall_clock(),
            launcher=ProcessIdentity.current().to_json(),
            started_in=outer if outer is not None and is_id(outer) else None,
            resumed_from=self.resumed_from,
            worktree=worktree,
            stdin_path=stdin_path,
            window=_window() if self.pty else None,
        )

    def _environment(self, home_path: str, run_id: str) -> dict[str, str]:
        """Ours, less every known agent's session variables, plus what was asked, stamped anew."""
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
            from holdfast.manage.git import REPOSITORY_VARIABLES

            # Of a hook that starts a run: its git commands would be about the hook's checkout.
            for name in REPOSITORY_VARIABLES - self.env.keys():
                environment.pop(name, None)
        stamp = {STAMP: run_id, STAMP_HOME: home_path}
        return {**environment, **stamp, "HOLDFAST_HOME": home_path}


def _window() -> dict[str, Any] | None:
    """The window that the caller looks at, if any: a terminal that is made for a run begins so."""
    for fd in (0, 1, 2):
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            continue
        if size.lines and size.columns:
            return {"rows": size.lines, "columns": size.columns}
    return None


def _wanted(options: Mapping[str, Any], stdin: object) -> Wanted:
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            raise WrongUse(f"start has no option {name!r}", hint=f"it has {', '.join(OPTIONS)}")
        field, read = OPTIONS[name]
        if value is not None:
            fields[field] = read(value, f"--{name.replace('_', '-')}")
    kind = "null" if stdin is None else "pipe" if stdin == "pipe" else "file"
    return Wanted(**fields, stdin=kind).check()


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
            f"--stdin: {path} is a FIFO: the run would wait for a writer before it begins",
            hint=f"--stdin - < {path} copies it in; --stdin pipe takes input from `holdfast send`",
            option="stdin",
            value=path,
            expected="a file",
        )
    return path


def _is_fifo(path: str) -> bool:
    import stat

    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:  # whoever opens it says what is wrong
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
    """The value, if it can be read back from a spec: checked as the reader will."""
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
    shown = repr(value) if what is None else what
    return InvalidOption(
        f"--{option}: {shown} is not {expected}", option=option, value=value, expected=expected
    )


def _agent(agent: str, command: tuple[str, ...]) -> str | None:
    if agent == "none":
        return None
    if agent == "auto":
        from holdfast.agents.recognition import recognise

        return recognise(command)
    from holdfast.agents.loader import load_profile

    return load_profile(agent).name
