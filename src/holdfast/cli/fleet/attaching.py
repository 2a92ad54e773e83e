"""Lends our terminal to the program that leads to the terminal of a run elsewhere."""

from __future__ import annotations

import os
import subprocess
import tempfile

from holdfast.cli.text import streams
from holdfast.errors import HoldfastError, NoAnswer, Unavailable
from holdfast.lean import signal
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.fleet.placement import Placement

_LINK_LOST = 255  # ssh's own failures, and a far side that was killed
_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # that program has them from there
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)


def lend_terminal(argv: Sequence[str], placement: Placement) -> int:
    """The far command's exit code; NoAnswer when the link is lost before it has ended."""
    streams.flush()
    settings = _terminal_settings()
    with tempfile.TemporaryFile() as said:  # by the program itself: the far side has the terminal
        try:
            code = _run(argv, said.fileno())
        finally:
            _restore_terminal(settings)
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if code == _LINK_LOST:
        last = f": {words.splitlines()[-1].strip()}" if words else ""
        raise NoAnswer(
            f"{placement.where} hung up, or can't be reached{last};"
            f" {placement.name} is not attached any more",
            hint=f"holdfast status {placement.id}; it does not hang on this terminal",
        )
    if words:
        streams.complain(words)
    return code


def _run(argv: Sequence[str], errors: int) -> int:
    try:
        program = subprocess.Popen(argv, stderr=errors)
    except FileNotFoundError:
        raise Unavailable(f"there is no {argv[0]} here", hint="install it") from None
    endings: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        if number != signal.SIGWINCH:
            endings.append(number)
        try:
            send_signal(ProcessIdentity.of(program.pid), number)
        except HoldfastError:
            pass  # it has just ended

    before = {one: signal.signal(one, signal.SIG_IGN) for one in _OF_THE_TERMINAL}
    before.update({one: signal.signal(one, pass_on) for one in _PASSED_ON})
    try:
        code = program.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if endings:
        return 128 + endings[0]
    return 128 - code if code < 0 else code


def _terminal_settings() -> list[object] | None:
    """None: stdin is no terminal."""
    if not os.isatty(0):
        return None
    import termios

    return termios.tcgetattr(0)


def _restore_terminal(settings: list[object] | None) -> None:
    """As it was, also after a program that was killed."""
    if settings is None:
        return
    import termios

    try:
        termios.tcsetattr(0, termios.TCSADRAIN, settings)  # type: ignore[arg-type]
    except termios.error:
        pass  # the terminal is gone
