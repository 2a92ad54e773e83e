"""A program of an engine, run to its end: sbatch, scontrol, squeue."""

from __future__ import annotations

import os

from holdfast.errors import NoAnswer, Unavailable
from holdfast.lean import signal
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from holdfast.record import Record
from holdfast.run.atomic_files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.manage.operations import Steps

_READ_BYTES = 1 << 16


class ProgramEnd(Record):
    """What a program printed, and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def last_line(self) -> str:
        """The last that it said on stderr, else its exit code."""
        lines = self.errors.strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


def run_program(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    seconds: float,
    name: str = "",
    env: dict[str, str] | None = None,
) -> Steps[ProgramEnd]:
    """To its end; NoAnswer, and it is ended, when it takes longer. `name`: of what it asks.

    `env`: its environment, instead of ours; it is looked for in our PATH all the same.
    """
    program = _spawn(argv, stdin, os.environ if env is None else env)
    try:
        output, errors = yield from _read_all(program, name or argv[0], boottime() + seconds)
        code = program.wait()
    finally:
        program.end()
    return ProgramEnd(code, output.decode(errors="replace"), errors.decode(errors="replace"))


class _Program:
    """A child of ours, and what it says. Without `subprocess`: an attendant would load it too."""

    def __init__(self, pid: int, output: int, errors: int) -> None:
        self._pid = pid
        self.output, self.errors = output, errors
        self._code: int | None = None

    def wait(self) -> int:
        """Its exit code; -N of a signal."""
        if self._code is None:
            _, status = os.waitpid(self._pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def end(self) -> None:
        """Now, if it has not ended."""
        os.close(self.output)
        os.close(self.errors)
        if self._code is None:
            send_signal(ProcessIdentity.of(self._pid), signal.SIGKILL)
            self.wait()


def _spawn(argv: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> _Program:
    given = os.memfd_create("stdin")
    output, to_output = os.pipe()
    errors, to_errors = os.pipe()
    try:
        write_all(given, stdin)
        os.lseek(given, 0, os.SEEK_SET)
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((given, to_output, to_errors))
            ],
            setsid=True,
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores
        )
    except BaseException as error:
        os.close(output)
        os.close(errors)
        if not isinstance(error, FileNotFoundError):
            raise
        raise Unavailable(
            f"there is no {argv[0]} here", hint="install it, and see that it is in PATH"
        ) from None
    finally:
        for fd in (given, to_output, to_errors):
            os.close(fd)
    return _Program(pid, output, errors)


def _read_all(program: _Program, name: str, deadline: float) -> Steps[tuple[bytes, bytes]]:
    read = {program.output: b"", program.errors: b""}
    open_fds = set(read)
    while open_fds:
        left = deadline - boottime()
        if left <= 0:
            raise NoAnswer(f"{name} did not answer in time", hint="is its server running?")
        for fd in (yield Wait(tuple(open_fds), left)):
            data = os.read(fd, _READ_BYTES)
            read[fd] += data
            if not data:
                open_fds.discard(fd)
    return read[program.output], read[program.errors]
