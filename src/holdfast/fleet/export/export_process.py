"""An export by a process of its own, for those that must not wait for a database: an attendant.

Nothing is started, and psycopg is loaded nowhere, where no database is configured.
"""

from __future__ import annotations

import sys

from holdfast.errors import HoldfastError
from holdfast.fleet.programs import run_program
from holdfast.fleet.settings import HOME, load_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.operations import Steps

_PROGRAM = "import sys; sys.path[:] = {path!r}; from holdfast.cli import program; program()"


def run_export(seconds: float, notice: Callable[[str], None]) -> Steps[None]:
    """Export this home, within that time. A failure is told; the next export makes up for it."""
    try:
        if load_settings().ledger == HOME:
            return
        words = ("fleet", "export", "--quiet")
        argv = (sys.executable, "-c", _PROGRAM.format(path=sys.path), *words)
        done = yield from run_program(argv, seconds=seconds, name="the database of the ledger")
    except HoldfastError as error:
        notice(f"facts are not exported: {error.message}")
        return
    if done.code:
        notice(f"facts are not exported: {done.last_line}")
