"""`holdfast guard PIDFILE CMD...`: become CMD, as the only instance of that pid file.

CMD replaces this process, so its PID, parent and signals are the same as without a guard. CMD
inherits the lock; if it closes the descriptor, the recorded identity still guards.
"""

from __future__ import annotations

import errno
import os
import signal

from holdfast.cli.text import streams
from holdfast.errors import Failed
from holdfast.process.pidfile import PidFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

JSON = False
_PYTHON_IGNORES = ("SIGPIPE", "SIGXFSZ")


def add_arguments(parser: Parser) -> None:
    """PIDFILE and CMD."""
    parser.add_argument(
        "pidfile", metavar="PIDFILE", help="created and locked; CMD inherits the lock"
    )
    parser.add_rest("command", "CMD", "the command and its arguments")
    parser.epilog = (
        "exit codes: 4 while another instance lives or may live, 126 and 127 when CMD can't be\n"
        "run; otherwise CMD's own. A file that CMD leaves behind never blocks the next start;\n"
        "-v prints which record is replaced, and whether its PID is dead or reused."
    )


def run(args: Namespace) -> int:
    """Returns only by raising: CMD replaces this process."""
    file = PidFile(args.pidfile, notice=streams.complain if args.verbose else _say_nothing)
    file.acquire(inheritable=True)
    try:
        _become(args.command)
    except OSError as error:
        file.release()
        raise _cannot_run(args.command[0], error) from error
    except BaseException:
        file.release()
        raise
    return 0


def _say_nothing(_text: str) -> None:
    """What the guarded command prints is its own; -v asks for more."""


def _become(command: list[str]) -> None:
    for name in _PYTHON_IGNORES:
        # The interpreter ignores these from its start, and CMD would inherit that.
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        _become_script(command)


def _become_script(command: list[str]) -> None:
    """A script without `#!` is run by the shell, as execvp(3) does."""
    import shutil

    path = shutil.which(command[0]) or command[0]
    os.execv("/bin/sh", ["/bin/sh", path, *command[1:]])


def _cannot_run(name: str, error: OSError) -> Failed:
    """The codes of a shell: 127 for a command that is not there, 126 for one that can't be run."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        failed = Failed(f"{name}: command not found")
        failed.exit_code = 127
    else:
        failed = Failed(f"{name} can't be run: {error.strerror}")
        failed.exit_code = 126
    return failed
