"""Runs git, without blocking an event loop and without asking anybody anything. The only file
that does.

A git that takes too long, or whose caller gives up, is ended: it tidies up after itself then.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.steps import Wait
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree import stop_tree
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from holdfast.manage.steps import Steps

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


class Said(Record):
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
    directory: str, *words: str, seconds: float = SECONDS, ceiling: str | None = None
) -> Steps[Said]:
    """Run `git WORDS` there. `ceiling`: a repository is looked for below that directory only."""
    import subprocess
    import tempfile

    environment = _environment(os.environ)
    if ceiling is not None:
        environment["GIT_CEILING_DIRECTORIES"] = ceiling
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        try:
            process = subprocess.Popen(
                ["git", "-C", directory, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error,
            )
        except FileNotFoundError:
            raise Unavailable("git is not installed", hint="--worktree needs it") from None
        code = yield from _wait_for(process, words[0], seconds)
        output.seek(0)
        error.seek(0)
        return Said(code, _text(output.read()), _text(error.read()))


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if name not in REPOSITORY_VARIABLES}
    # Nobody is there to answer; and a look must not write.
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return {**kept, **quiet}


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
