"""Runs git, without blocking an event loop and without prompting. The only file
that does.

A repository's configuration can name programs, and a run that worked in it may have written that:
only a checkout, which the user asks for, runs them (docs/decisions/0034). A git that takes too
long, or whose caller gives up, is ended: it tidies up after itself then.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree_stop import stop_tree
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from holdfast.manage.operations import Steps

SECONDS = 60.0
CHECKOUT_SECONDS = 1800.0  # a large repository, a slow disk, hooks, files fetched on demand
_ENDING_SECONDS = 10.0
_PAUSE_SECONDS = 0.02  # between looks, where a process can't be waited for by a descriptor

# Variables by which a hook or an outer git says which repository is meant: not the one that we
# mean. As `git rev-parse --local-env-vars` lists them.
REPOSITORY_VARIABLES = frozenset(
    f"GIT_{name}"
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "CONFIG", "CONFIG_COUNT",
        "CONFIG_PARAMETERS", "DIR", "GRAFT_FILE", "IMPLICIT_WORK_TREE", "INDEX_FILE",
        "INTERNAL_SUPER_PREFIX", "NAMESPACE", "NO_REPLACE_OBJECTS", "OBJECT_DIRECTORY", "PREFIX",
        "QUARANTINE_PATH", "REPLACE_REF_BASE", "SHALLOW_FILE", "WORK_TREE",
    )
)  # fmt: skip


# What the look at a repository keeps of the caller's: where its own configuration and programs are.
_KEPT_VARIABLES = frozenset(
    f"GIT_{name}" for name in ("CONFIG_GLOBAL", "CONFIG_SYSTEM", "CONFIG_NOSYSTEM", "EXEC_PATH")
)
_NO_PROGRAMS = (
    *("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    *("-c", "maintenance.auto=false", "-c", "gc.auto=0", "-c", "core.splitIndex=false"),
)
_FILTER_PARTS = {"clean": "", "smudge": "", "process": "", "required": "false"}
_USERS_OWN = ("system", "global")


class GitAnswer(Record):
    """What a git command answered."""

    code: int
    output: str
    error: str

    @property
    def is_well(self) -> bool:
        return self.code == 0

    @property
    def text(self) -> str:
        """Its answer, without the last newline."""
        return self.output.removesuffix("\n")

    @property
    def complaint(self) -> str:
        """Why it failed, in a line of its own."""
        said = (self.error or self.output).strip().splitlines()
        fatal = [line for line in said if line.startswith(("fatal: ", "error: "))]
        line = (fatal or said or [f"exit code {self.code}"])[-1]
        return line.removeprefix("fatal: ").removeprefix("error: ")


def git(
    directory: str,
    *words: str,
    seconds: float = SECONDS,
    ceiling: str | None = None,
    without_filters: Sequence[str] = (),
    index: str | None = None,
    stdin: bytes = b"",
) -> Steps[GitAnswer]:
    """Run `git WORDS` there, and no program that the repository names.

    `ceiling`: a repository is looked for below that directory only. `without_filters`: what
    `find_filters` found; for commands that read files of a checkout. `index`: used instead of the
    checkout's own.
    """
    environment = {**_bare_environment(os.environ), **_switched_off(without_filters)}
    if ceiling is not None:
        environment["GIT_CEILING_DIRECTORIES"] = ceiling
    if index is not None:
        environment["GIT_INDEX_FILE"] = index
    words = (*_NO_PROGRAMS, "-C", directory, *words)
    return (yield from _run(words, environment, seconds, stdin))


def check_out(directory: str, *words: str) -> Steps[GitAnswer]:
    """Run a git that makes a checkout: with the hooks and filters of the user's repository."""
    words = ("-c", "core.fsmonitor=false", "-C", directory, *words)
    return (yield from _run(words, _environment(os.environ), CHECKOUT_SECONDS))


def find_filters(directory: str, ceiling: str) -> Steps[list[str]]:
    """The filters that the repository's own configuration defines: programs for `git status`."""
    asked = ("config", "--null", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    said = yield from git(directory, *asked, ceiling=ceiling)
    if said.code not in (0, 1):  # 1: there are none
        raise Unavailable(
            f"git can't say which programs {directory} would run: {said.complaint}",
            hint="git 2.26 or later is needed",
        )
    words = said.output.split("\0")[:-1]
    found = zip(words[::2], words[1::2], strict=True)
    names = {key.rpartition(".")[0] for scope, key in found if scope not in _USERS_OWN}
    return sorted(names - {"filter"})


def _switched_off(filters: Sequence[str]) -> dict[str, str]:
    """As variables: a name may hold any character."""
    settings = [
        (f"{name}.{part}", value) for name in filters for part, value in _FILTER_PARTS.items()
    ]
    variables = {"GIT_CONFIG_COUNT": str(len(settings))} if settings else {}
    for place, (key, value) in enumerate(settings):
        variables[f"GIT_CONFIG_KEY_{place}"] = key
        variables[f"GIT_CONFIG_VALUE_{place}"] = value
    return variables


def _run(
    words: Sequence[str], environment: dict[str, str], seconds: float, stdin: bytes = b""
) -> Steps[GitAnswer]:
    import contextlib
    import signal
    import subprocess
    import tempfile

    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # `subprocess` would say 0
        raise Unavailable(
            "what git answers can't be known: this program ignores SIGCHLD",
            hint="signal.signal(signal.SIGCHLD, signal.SIG_DFL) before a worktree is used",
        )
    verb = words[words.index("-C") + 2]
    with contextlib.ExitStack() as stack:
        given, output, error = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["git", *words], env=environment, stdin=given, stdout=output, stderr=error
            )
        except FileNotFoundError:
            raise Unavailable("git is not installed", hint="a run in a worktree needs it") from None
        code = yield from _wait_for(process, verb, seconds)
        output.seek(0)
        error.seek(0)
        return GitAnswer(code, _text(output.read()), _text(error.read()))


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if name not in REPOSITORY_VARIABLES}
    # Git must not prompt; and a look must not write.
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return {**kept, **quiet}


def _bare_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that name programs; and nothing is fetched, which would run some."""
    kept = {
        name: value
        for name, value in _environment(ours).items()
        if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return {**kept, **quiet, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


def _wait_for(process: subprocess.Popen[bytes], verb: str, seconds: float) -> Steps[int]:
    deadline = boottime() + seconds
    descriptor = _descriptor(process)
    fds = () if descriptor is None else (descriptor,)
    try:
        while process.poll() is None:
            left = deadline - boottime()
            if left <= 0:
                raise Unavailable(
                    f"git {verb} took longer than {seconds:g} s, and was ended",
                    hint="see whether git works there: git status",
                )
            yield Wait(fds, left if fds else min(left, _PAUSE_SECONDS))
    finally:
        if process.poll() is None:
            _end(process)
        for fd in fds:
            os.close(fd)
    return int(process.returncode)


def _descriptor(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or no descriptor is left
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        # Our own child, not reaped yet: the number is its own. With it go the hooks that it runs.
        stop_tree(ProcessIdentity.of(process.pid), grace_seconds=_ENDING_SECONDS)
    except HoldfastError:
        pass  # it has just ended
    process.wait()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
