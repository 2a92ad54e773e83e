"""How a list of what `doctor` found looks."""

from __future__ import annotations

from holdfast.cli.text.terminal import columns, paint
from holdfast.manage.doctor.findings import Status
from holdfast.manage.plaintext import fill, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.doctor.findings import DoctorFinding

_INDENT = 17
_WORDS = {
    Status.OK: ("ok", ("green",)),
    Status.MISSING: ("--", ("dim",)),
    Status.FAIL: ("FAIL", ("red", "bold")),
}


def lines_of_finding(finding: DoctorFinding) -> list[str]:
    """One finding, wrapped to the screen."""
    room = max(columns() - _INDENT, 30)
    said = fill(printable(finding.says), room)
    if finding.fix:
        said += fill(f"fix: {printable(finding.fix)}", room)
    word, looks = _WORDS[finding.status]
    first = f"{paint(f'{word:<4}', *looks)}  {finding.name:<{_INDENT - 7}} {said[0]}"
    return [first, *(" " * _INDENT + line for line in said[1:])]
