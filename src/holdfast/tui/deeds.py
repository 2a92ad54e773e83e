"""What is done to runs, in threads of their own: how it goes on, and what came of it, in words.

All is done by the library, whose refusals are passed on as they are. A deed that was begun goes
on, whatever the screen shows meanwhile.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused, as_our_error
from holdfast.manage.changing.stop_attempt import Attempted, attempt
from holdfast.manage.operations import run_steps
from holdfast.manage.removal.archive import archive_run
from holdfast.manage.removal.remove import Names, remove_run
from holdfast.manage.run import Run
from holdfast.manage.stopping import stops_at_once
from holdfast.manage.suspects import Suspects
from holdfast.manage.together import run_together
from holdfast.manage.words.possible import Deed, why_not
from holdfast.record import Record
from holdfast.run.units import size
from holdfast.run.usage.reading import UsageKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.manage.runs import Runs

    Tell = Callable[[str], None]


class DeedRequest(Record):
    """What is to be done to which runs: ids, and the names that people know them by."""

    deed: Deed
    runs: tuple[tuple[str, str], ...]
    text: str = ""  # to send, the next prompt, the id of a question


class DeedResult(Record):
    """What came of it."""

    text: str
    is_refused: bool = False
    hint: str = ""


def run_of(library: Runs, run_id: str) -> Run:
    """Here, or elsewhere."""
    run = Run(library, run_id)
    return run if run.directory.exists() else library.get(run_id)


def carry_out(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    """Do it; `tell` hears how far it is."""
    try:
        return _DEEDS[asked.deed](library, asked, tell)
    except HoldfastError as error:
        return _refusal(error)


def _refusal(error: HoldfastError) -> DeedResult:
    return DeedResult(error.message, True, error.hint or "")


def _summed_up(done: Sequence[str], errors: Sequence[HoldfastError], verb: str) -> DeedResult:
    """One run in its own words; of many how many, and why the first was refused."""
    if len(done) + len(errors) == 1:
        return DeedResult(done[0]) if done else _refusal(errors[0])
    said = f"{len(done)} {verb}"
    if not errors:
        return DeedResult(said)
    return DeedResult(
        f"{said}, {len(errors)} refused: {errors[0].message}", True, errors[0].hint or ""
    )


def _stop(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    del tell
    return _stop_all(library, asked, None)


def _hurry(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    """Only what is being stopped: that was asked about."""
    del tell
    for run_id, _ in asked.runs:
        refusal = why_not(asked.deed, run_of(library, run_id).info())
        if refusal:
            raise Refused(refusal, hint="s stops it")
    return _stop_all(library, asked, 0.0)


def _stop_all(library: Runs, asked: DeedRequest, grace: float | None) -> DeedResult:
    runs = [(run_of(library, run_id), name) for run_id, name in asked.runs]
    elsewhere = [(run, name) for run, name in runs if run.is_elsewhere]
    if elsewhere:
        return _stop_elsewhere(library, asked, elsewhere, grace)
    attempts = [Attempted(name, run) for run, name in runs]
    operations = [attempt(one, grace, None) for one in attempts]
    for one, result in zip(attempts, run_together(operations, stops_at_once()), strict=True):
        if isinstance(result, HoldfastError):
            one.fail(result)
    failed = [one for one in attempts if one.exit_code]
    if len(attempts) == 1:
        only = attempts[0]
        return DeedResult(f"{only.name} {only.sentence()}", bool(failed), only.hint() or "")
    said = f"{len(attempts) - len(failed)} stopped"
    if not failed:
        return DeedResult(said)
    first = failed[0]
    return DeedResult(f"{said}; {first.name} {first.sentence()}", True, first.hint() or "")


def _stop_elsewhere(
    library: Runs, asked: DeedRequest, elsewhere: list[tuple[Run, str]], grace: float | None
) -> DeedResult:
    """Those on other machines by their own shims; then those here."""
    stops = [run._stop_steps(grace, None) for run, _ in elsewhere]  # type: ignore[attr-defined]
    done, errors = [], []
    for (run, name), result in zip(elsewhere, run_together(stops, stops_at_once()), strict=True):
        if isinstance(result, HoldfastError):
            errors.append(result)
        elif result.survivors:
            said = f"{name} NOT stopped: {len(result.survivors)} of its processes are alive"
            errors.append(Refused(said, hint=f"holdfast tree {run.id}"))
        else:
            where = run.placement.where  # type: ignore[attr-defined]
            done.append(f"{name} stopped on {where}")
    there = _summed_up(done, errors, "stopped")
    ids = {run.id for run, _ in elsewhere}
    here = tuple(one for one in asked.runs if one[0] not in ids)
    if not here:
        return there
    result = _stop_all(library, asked.replace(runs=here), grace)
    is_refused, hint = there.is_refused or result.is_refused, there.hint or result.hint
    return DeedResult(f"{result.text}; elsewhere: {there.text}", is_refused, hint)


def _pause(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    """Those that are paused go on; the others are paused."""

    def one(run: Run, name: str) -> str:
        if run.info().paused is not None:
            run.unpause()
            return f"{name} goes on"
        run.pause()
        return f"{name} is paused: z goes on"

    return _one_by_one(library, asked, tell, one, "paused or going on")


def _remove(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    home = library.home
    suspects, names, keeper = Suspects(home), Names(home), UsageKeeper(home)

    def one(run: Run, name: str) -> str:
        if run.is_elsewhere:
            return f"{name} removed from its node: {run.remove().evidence}"
        gone = remove_run(run.directory, suspects=suspects, names=names, keeper=keeper)
        return f"{name} removed, {size(gone.freed_bytes)} freed: {gone.evidence}"

    return _one_by_one(library, asked, tell, one, "removed")


def _archive(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    suspects, names = Suspects(library.home), Names(library.home)

    def one(run: Run, name: str) -> str:
        if run.is_elsewhere:
            return f"{name} archived on its node: {run.archive().path}"
        packed = archive_run(run.directory, suspects=suspects, names=names)
        return f"{name} archived, {size(packed.archive_bytes)}: {packed.path}"

    return _one_by_one(library, asked, tell, one, "archived")


def _one_by_one(
    library: Runs,
    asked: DeedRequest,
    tell: Tell,
    deed: Callable[[Run, str], str],
    verb: str,
) -> DeedResult:
    done, errors = [], []
    for place, (run_id, name) in enumerate(asked.runs):
        tell(f"{place} of {len(asked.runs)}")
        try:
            done.append(deed(run_of(library, run_id), name))
        except (HoldfastError, OSError) as error:  # what was done to the others is told
            errors.append(as_our_error(error))
    return _summed_up(done, errors, verb)


def _answer(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    del tell
    (run_id, name), *_ = asked.runs
    run = run_of(library, run_id)
    given = run.approve(asked.text) if asked.deed is Deed.APPROVE else run.deny(asked.text)
    return DeedResult(f"{name} {given.how}: {given.text}")


def _send(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    del tell
    (run_id, name), *_ = asked.runs
    run = run_of(library, run_id)
    info = run.info()
    refusal = why_not(asked.deed, info)
    if refusal:
        raise Refused(refusal)
    run.send(os.fsencode(asked.text) + (b"\r" if info.pty else b"\n"))
    return DeedResult(f"sent to {name}")


def _resume(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    del tell
    (run_id, name), *_ = asked.runs
    again = run_of(library, run_id).resume(asked.text or None)
    return DeedResult(f"{name} goes on as {again.id}")


def _rerun(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    def one(run: Run, name: str) -> str:
        return f"{name} runs again as {run.rerun().id}"

    return _one_by_one(library, asked, tell, one, "run again")


def _recover(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    """Every run whose shim is gone, as `holdfast recover` does."""
    del asked
    found = run_steps(
        library._recover_steps(
            resume_lost=False, tell=lambda done, of: tell(f"{done} of {of} looked at")
        )
    )
    if not found:
        return DeedResult("nothing to recover: every run is supervised or has ended")
    counts: dict[str, int] = {}
    for one in found:
        counts[one.action.value] = counts.get(one.action.value, 0) + 1
    if len(found) == 1:
        only = found[0]
        return DeedResult(f"{only.name or only.id} {only.action}: {only.evidence}")
    sent = sum(one.signals for one in found)
    said = ", ".join(f"{count} {action}" for action, count in counts.items())
    return DeedResult(f"{said}; {sent} {'signal' if sent == 1 else 'signals'} sent")


def _token(library: Runs, asked: DeedRequest, tell: Tell) -> DeedResult:
    """The text is the token itself: the screen copies it."""
    del tell
    info = run_of(library, asked.runs[0][0]).info()
    if info.workload is not None:
        return DeedResult(info.workload.token)
    if info.shim is not None:
        return DeedResult(str(info.shim["token"]))
    raise Refused(f"no process of {asked.runs[0][1]} is recorded")


_DEEDS: dict[Deed, Callable[[Runs, DeedRequest, Tell], DeedResult]] = {
    Deed.STOP: _stop,
    Deed.HURRY: _hurry,
    Deed.PAUSE: _pause,
    Deed.REMOVE: _remove,
    Deed.ARCHIVE: _archive,
    Deed.APPROVE: _answer,
    Deed.DENY: _answer,
    Deed.SEND: _send,
    Deed.RESUME: _resume,
    Deed.RERUN: _rerun,
    Deed.RECOVER: _recover,
    Deed.TOKEN: _token,
}
