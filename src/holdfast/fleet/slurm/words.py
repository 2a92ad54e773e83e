"""What Slurm's programs print, and the batch script that they are given. Pure."""

from __future__ import annotations

from holdfast.fleet.placement import EngineView
from holdfast.lean import json_text
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

COMMENT = "holdfast: "  # begins what an attendant says about a run that it did not start
LONGEST_COMMENT = 300
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED")
_REACHABLE = ("RUNNING", "SUSPENDED")
_NOTHING = ("", "(null)", "None", "N/A", "n/a", "Unknown")
JOB_FORMAT = "%i %T %B %j %k"  # for squeue: number, state, node, name, comment


class SlurmJob(Record):
    """One job, as `scontrol show job` tells it."""

    name: str
    state: str
    reason: str
    node: str | None  # where its batch process is, or was
    is_held: bool
    exit_code: str
    since: str | None  # of its state: when it began, or ended
    refusal: str | None  # its attendant's word that nothing was started

    @property
    def is_waiting(self) -> bool:
        """Whether it has not begun, and may."""
        return self.state in _WAITING and self.node is None

    @property
    def is_reachable(self) -> bool:
        """Whether a step can join it."""
        return self.state in _REACHABLE and self.node is not None

    @property
    def is_held_by_user(self) -> bool:
        """Whether it is held as it was submitted, and not by an administrator."""
        return self.is_held and self.reason == "JobHeldUser"

    @property
    def never_began(self) -> bool:
        """Whether it is over, and was given no node."""
        return self.node is None and self.state not in _WAITING

    def view(self) -> EngineView:
        """As evidence."""
        words = [self.state]
        if self.is_waiting and self.reason:
            words.append(f"({self.reason})")
        if self.state == "FAILED" and self.exit_code:
            words.append(f"(exit {self.exit_code})")
        return EngineView(
            "slurm",
            " ".join(words),
            is_waiting=self.is_waiting,
            is_gone=self.state not in (*_WAITING, "RUNNING", "COMPLETING"),
            node=self.node,
            at=self.since,
            refusal=self.refusal,
            never_began=self.never_began,
        )


def read_job(line: str) -> SlurmJob:
    """One line of `scontrol show job -o`."""
    import re

    def field(name: str) -> str:
        found = re.search(rf"(?:^| ){re.escape(name)}=(.*?)(?= [A-Z][\w/:-]*=|\s*$)", line)
        value = found.group(1).strip() if found else ""
        return "" if value in _NOTHING else value

    state = field("JobState")
    begun = field("BatchHost") or field("NodeList")
    return SlurmJob(
        field("JobName"),
        state,
        field("Reason"),
        begun or None,
        state == "PENDING" and field("Reason").startswith("JobHeld"),
        field("ExitCode").partition(":")[0],
        field("EndTime") or field("StartTime") or None,
        _refusal(field("Comment")),
    )


def read_jobs(text: str) -> dict[str, SlurmJob]:
    """What squeue prints in JOB_FORMAT, by the number of each job."""
    found = {}
    for line in text.splitlines():
        number, state, node, name, comment = [*line.split(" ", 4), ""][:5]
        known = None if node in _NOTHING else node
        found[number] = SlurmJob(name, state, "", known, False, "", None, _refusal(comment))
    return found


def _refusal(comment: str) -> str | None:
    return comment.removeprefix(COMMENT).strip() if comment.startswith(COMMENT) else None


class SlurmConfig(Record):
    """What of Slurm's settings a run depends on."""

    cluster: str
    version: str
    proctrack: str
    kill_wait_seconds: float | None

    @classmethod
    def read(cls, text: str) -> SlurmConfig:
        """The output of `scontrol show config`."""
        import re

        rows = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
        wait = re.match(r"\d+", rows.get("KillWait", ""))
        return cls(
            rows.get("ClusterName", ""),
            rows.get("SLURM_VERSION", ""),
            rows.get("ProctrackType", ""),
            float(wait.group()) if wait else None,
        )


_BATCH = """\
#!/bin/sh
IFS=: read -r USER _ _ _ _ HOME SHELL <<HOLDFAST
$(getent passwd "$(id -u)")
HOLDFAST
LOGNAME=$USER
export USER LOGNAME HOME SHELL
case "${{SHELL##*/}}" in
  bash|dash|ash|ksh|mksh|zsh) login=$SHELL ;;
  *) login=/bin/sh ;;
esac
exec "$login" -lc {line} 3<<'HOLDFAST' </dev/null
{document}
HOLDFAST
"""


def batch_script(command: str, home: str, document: Json) -> bytes:
    """What sbatch is given: the attendant, and what it is to start, without secrets.

    Its environment is made here, by a login shell of the user's kind. Slurm's own way
    (`--export=NONE`) has slurmd do it before each launch: measured, much slower for many jobs.
    """
    from holdfast.shell_words import quote

    line = f"{node_line(command, home, 'attend')} <&3 3<&-"
    # One line of ASCII. A login script that reads its stdin does not get it.
    return _BATCH.format(line=quote(line), document=json_text(document)).encode()


def node_line(command: str, home: str, *words: str) -> str:
    """A shell's line for the node's own holdfast. The command is the user's text."""
    from holdfast.shell_words import command_line, quote

    prefix = f"env HOLDFAST_HOME={quote(home)} " if home else ""
    return f"exec {prefix}{command} fleet {command_line(words)}"


def seconds_left(text: str) -> float | None:
    """`1-02:03:04` of squeue's %L; None: no limit."""
    days, dash, rest = text.strip().rpartition("-")
    parts = [days or "0", *rest.split(":")] if dash or ":" in rest else []
    if not all(part.isdigit() for part in parts) or len(parts) not in (3, 4):
        return None
    seconds = 0.0
    for part in parts[1:]:
        seconds = seconds * 60 + int(part)
    return int(parts[0]) * 86400.0 + seconds
