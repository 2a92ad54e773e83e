"""How a list of what `doctor` found looks."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import columns, paint
from holdfast.manage.doctor.findings import FindingStatus
from holdfast.manage.plaintext import fill, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from holdfast.manage.doctor.findings import DoctorFinding

_INDENT = 17
_WORDS = {
    FindingStatus.OK: ("ok", ("green",)),
    FindingStatus.MISSING: ("--", ("dim",)),
    FindingStatus.FAIL: ("FAIL", ("red", "bold")),
}


def printer_of_findings(args: Namespace) -> Callable[[DoctorFinding], None]:
    """Prints each finding as it comes; with `--json` none, with `--quiet` failures alone."""

    def show(finding: DoctorFinding) -> None:
        if not args.json and (not args.quiet or finding.status is FindingStatus.FAIL):
            streams.say("\n".join(lines_of_finding(finding)))
            streams.flush()  # the next one may take a while

    return show


def lines_of_finding(finding: DoctorFinding) -> list[str]:
    """One finding, wrapped to the screen."""
    room = max(columns() - _INDENT, 30)
    said = fill(printable(finding.says), room)
    if finding.fix:
        said += fill(f"fix: {printable(finding.fix)}", room)
    word, looks = _WORDS[finding.status]
    first = f"{paint(f'{word:<4}', *looks)}  {finding.name:<{_INDENT - 7}} {said[0]}"
    return [first, *(" " * _INDENT + line for line in said[1:])]
