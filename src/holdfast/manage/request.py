"""From what a caller asks to a spec: options are checked here, before anything is made."""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, WrongUse
from holdfast.process import here
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import STAMP
from holdfast.process.paths import absolute
from holdfast.run.names import check_name, default_name, is_id
from holdfast.run.quantities import parse_duration, parse_size
from holdfast.run.spec import RunSpec, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.run.home import Home

# Of the tests' own machinery, and of a notice that starts a run: not the workload's.
_NOT_INHERITED = (
    "HOLDFAST_NOTICE_OF",
    "HOLDFAST_CRASH_AT",
    "HOLDFAST_CRASH_LOG",
    "HOLDFAST_HOLD_AT",
    "HOLDFAST_HOLD_FIFO",
)


def _seconds(value: Any, option: str) -> float:
    return float(value) if isinstance(value, (int, float)) else parse_duration(value, option)


def _bytes(value: Any, option: str) -> int:
    return int(value) if isinstance(value, int) else parse_size(value, option)


def _as_is(value: Any, _option: str) -> Any:
    return value


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
        if isinstance(argv, (str, bytes)):
            raise TypeError("argv is a list of words, not one text: ['sleep', '60']")
        self.command = tuple(os.fspath(word) for word in argv)
        if not self.command:
            raise WrongUse("there is no command to run", hint="holdfast run [options] CMD [ARG...]")
        if any("\0" in word for word in self.command):
            raise InvalidOption("the command has a zero byte in it", option="argv")
        self.name = check_name(name) if name is not None else default_name(self.command)
        self.key = key
        self.stdin = stdin
        self.replace = replace
        self.cwd = absolute(os.fspath(cwd) if cwd is not None else ".")
        self.env = dict(env or {})
        self.tags = check_tags(tags or {})
        self.pty = pty
        self.worktree = worktree
        self.resumed_from = resumed_from
        self.wanted = _wanted(options, stdin)
        self.agent = _agent(agent, self.command)

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
        return {**environment, STAMP: run_id, "HOLDFAST_HOME": home_path}


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
            try:
                fields[field] = read(value, f"--{name.replace('_', '-')}")
            except (TypeError, ValueError) as error:
                raise InvalidOption(f"--{name}: {value!r}: {error}", option=name) from error
    kind = "null" if stdin is None else "pipe" if stdin == "pipe" else "file"
    return Wanted(**fields, stdin=kind).check()


def check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags as they are stored; InvalidOption for an empty key."""
    for name, value in tags.items():
        if not name or "=" in name:
            raise InvalidOption(f"--tag: {name!r}={value!r} is not K=V", option="tag")
    return dict(tags)


def _agent(agent: str, command: tuple[str, ...]) -> str | None:
    if agent == "none":
        return None
    if agent == "auto":
        from holdfast.agents.recognition import recognise

        return recognise(command)
    from holdfast.agents.loader import load_profile

    return load_profile(agent).name
