"""A program of an engine, run to its end: sbatch, scontrol, squeue."""

from __future__ import annotations

import os
import subprocess

from holdfast.errors import NoAnswer, Unavailable
from holdfast.lean import signal
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
    argv: Sequence[str], *, stdin: bytes = b"", seconds: float, name: str = ""
) -> Steps[ProgramEnd]:
    """To its end; NoAnswer, and it is ended, when it takes longer. `name`: of what it asks."""
    with open(os.memfd_create("stdin"), "w+b", closefd=True) as given:
        given.write(stdin)
        given.seek(0)
        try:
            program = subprocess.Popen(
                argv,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Unavailable(
                f"there is no {argv[0]} here", hint="install it, and see that it is in PATH"
            ) from None
    try:
        output, errors = yield from _read_all(program, name or argv[0], boottime() + seconds)
        code = program.wait()
    finally:
        _end(program)
    return ProgramEnd(code, output.decode(errors="replace"), errors.decode(errors="replace"))


def _read_all(
    program: subprocess.Popen[bytes], name: str, deadline: float
) -> Steps[tuple[bytes, bytes]]:
    assert program.stdout is not None
    assert program.stderr is not None
    read = {program.stdout.fileno(): b"", program.stderr.fileno(): b""}
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
    output, errors = read.values()
    return output, errors


def _end(program: subprocess.Popen[bytes]) -> None:
    for pipe in (program.stdout, program.stderr):
        assert pipe is not None
        pipe.close()
    if program.poll() is None:
        send_signal(ProcessIdentity.of(program.pid), signal.SIGKILL)
        program.wait()
