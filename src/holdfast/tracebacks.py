"""The text of a traceback, with the lines that code from the bundle does not have in memory.

Loaded only when something failed. Where the bundle was replaced meanwhile, these lines are unknown.
"""

from __future__ import annotations

from holdfast.importing import bundled_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType

    from holdfast.importing import Lines

_UNKNOWN = -1  # as an interpreter has it


def traceback_text(error: BaseException) -> str:
    """As Python prints it, with what it was raised from."""
    import traceback

    lines = bundled_lines()
    told: list[BaseException] = []
    ahead = [error]
    while ahead:
        one = ahead.pop()
        if not any(one is other for other in told):
            told.append(one)
            one.__traceback__ = _with_lines(one.__traceback__, lines)
            ahead += [other for other in (one.__cause__, one.__context__) if other is not None]
    return "".join(traceback.format_exception(error))


def line_key(code: CodeType) -> tuple[str, str, int, int]:
    """By what the lines of a function are found; two may be alike, which is very rare."""
    return code.co_filename, code.co_name, code.co_firstlineno, len(code.co_code) // 2


def _with_lines(first: TracebackType | None, lines: Lines) -> TracebackType | None:
    entries = []
    entry = first
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    for entry in reversed(entries):  # as many as a program may nest calls: no recursion
        line = entry.tb_lineno or _line(entry.tb_frame.f_code, entry.tb_lasti, lines)
        first = type(entry)(entry.tb_next and first, entry.tb_frame, entry.tb_lasti, line)
    return first


def _line(code: CodeType, at: int, lines: Lines) -> int:
    table = lines.get(line_key(code))
    if table is None:
        return _UNKNOWN
    found = code.replace(co_linetable=table).co_lines()
    return next((line for start, end, line in found if start <= at < end and line), _UNKNOWN)
