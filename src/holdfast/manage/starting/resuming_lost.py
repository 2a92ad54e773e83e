"""Goes on with agents that a reboot ended: `recover --resume-lost`, once the machine is up again.

Each once, however often and by however many this is asked for: the new run has a key that is made
of the lost one's id. Only what was found lost in this boot is meant; a person decides about older
ones. What is not resumed is told with the reason.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.lean import read_json
from holdfast.manage.recovery import Action, Recovered, recover_all
from holdfast.manage.starting.resuming import resume_steps
from holdfast.manage.state import view_run
from holdfast.process import this_host
from holdfast.process.clock import seconds_of
from holdfast.run.atomic_files import read_file
from holdfast.run.directory import RunDirectory
from holdfast.run.outcomes import Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.runs import Runs
    from holdfast.manage.state import RunView

    Json = dict[str, Any]


def recover_and_resume(runs: Runs, **word: Any) -> Steps[list[Recovered]]:
    """What `recover_all` found, and what became of each agent that a reboot ended."""
    found: list[Recovered] = yield from recover_all(runs.home, **word)
    told = list(found)
    for one in found:
        if one.loss is Loss.REBOOT and _agent_of(RunDirectory(runs.home, one.id)) is None:
            why = "it is no agent's: there is no session to go on with; holdfast rerun"
            told.append(Recovered(one.id, one.name, Action.NOT_RESUMED, why))
    for view in _ended_by_reboot(runs):
        said = yield from _resume(runs, view, dry_run=bool(word.get("dry_run")))
        told += [] if said is None else [said]
    return told


def _agent_of(directory: RunDirectory) -> str | None:
    try:
        return directory.read_spec().agent
    except (HoldfastError, OSError):
        return None


def _ended_by_reboot(runs: Runs) -> list[RunView]:
    """Agents whose end was found in this boot, and that lived in an earlier one; oldest first."""
    views = []
    for run_id in runs.home.run_ids():
        directory = RunDirectory(runs.home, run_id)
        try:
            summary = read_json(str(read_file(directory.summary_path), "utf-8"))
            if not isinstance(summary, dict) or summary.get("agent") is None:
                continue
            view = view_run(directory, members=False)
        except (HoldfastError, OSError, ValueError):
            continue  # no agent of which that is known
        if view.is_final and _is_meant(view):
            views.append(view)
    return views


def _is_meant(view: RunView) -> bool:
    facts, here = view.facts, this_host.place().boot_id
    if facts.shim is None or facts.shim.boot_id != here:
        return False  # found in an earlier boot: not by this recovery, nor by one since the reboot
    if facts.loss is Loss.REBOOT:
        return True
    # It waited for a used-up quota when the machine went down.
    root = facts.attempt.root
    is_older = root is not None and root.boot_id != here
    return is_older and _quota_wait(view) is not None and facts.stop_reason is None


def _quota_wait(view: RunView) -> Json | None:
    wait = (view.facts.attempt.restart or {}).get("limit")
    return wait if isinstance(wait, dict) else None


def _resume(runs: Runs, view: RunView, *, dry_run: bool) -> Steps[Recovered | None]:
    """None: it goes on already, by an earlier call or because somebody resumed it."""
    spec = view.spec
    if _goes_on(view):
        return None
    reason = _why_not(view)
    if reason is not None:
        return Recovered(spec.id, spec.name, Action.NOT_RESUMED, reason)
    if dry_run:
        return Recovered(spec.id, spec.name, Action.RESUMED, _said(view))
    more: Json = {"key": f"resume-lost {spec.id}"}
    wait = _quota_wait(view)
    if wait is not None and seconds_of(wait["at"]) > time.time():
        more["at"] = wait["at"]
    try:
        started: RunDirectory = yield from resume_steps(runs, view.directory, None, more=more)
    except (HoldfastError, OSError) as error:
        if _goes_on(view):  # by another recovery at the same time
            return None
        return Recovered(spec.id, spec.name, Action.NOT_RESUMED, str(error))
    return Recovered(spec.id, spec.name, Action.RESUMED, _said(view), resumed_as=started.id)


def _why_not(view: RunView) -> str | None:
    if view.spec.placement is not None:
        return "it was placed from another machine: resume it from there"
    completion = view.facts.attempt.completion
    if completion is not None and _quota_wait(view) is None:
        return "its work was proven done before the reboot"
    return None


def _said(view: RunView) -> str:
    session = (view.facts.session or {}).get("id")
    queue = (view.spec.waits or {}).get("queue")
    through = "" if queue is None else f", through queue {queue}"
    return f"a reboot ended it: its session {session} goes on{through}"


def _goes_on(view: RunView) -> bool:
    """Whether some run was made of it. Ids don't tell: those of one second sort by chance, and
    after a reboot the clock may be behind.
    """
    home, run_id = view.directory.home, view.spec.id
    for other in home.run_ids():
        directory = RunDirectory(home, other)
        try:
            if (
                run_id.encode() in read_file(directory.spec_path)
                and directory.read_spec().resumed_from == run_id
            ):
                return True
        except (HoldfastError, OSError):  # not readable: the key still starts one alone
            continue
    return False
