"""Wait for runs on other machines, over links that may be cut; for several together with runs here.

Of several, one question to a node is for all of its runs.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, NoAnswer, RunNotFound
from holdfast.fleet.reaching import ask_json, keep_look
from holdfast.fleet.remote import RemoteRun
from holdfast.fleet.remote_info import fit_info, info_from_node
from holdfast.fleet.remote_output import AGAIN_SECONDS, LONGEST_AGAIN_SECONDS
from holdfast.fleet.verdict import RemoteVerdict, VerdictSource
from holdfast.manage.operations import Wait
from holdfast.manage.together import together
from holdfast.process.clock import boottime
from holdfast.run.facts import State
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from holdfast.fleet.placement import EngineView
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.run import Run

_AT_ONCE = 16  # of those that are waited for one by one, where all have to end anyway
_LOOK_SECONDS = 0.25  # until an engine is asked again about its jobs; then longer
_SHARE = 5  # between looks it waits this many times as long as a look took
_ASK_SECONDS = 60.0  # until a node is asked about runs that are over, while others go on
_ROOM_SECONDS = 60.0  # for an answer, beyond what its node waits
_RECORDED_SECONDS = 8.0  # in which the end of a run is recorded, once its job is over


def wait_for_all(
    runs: Sequence[Run], *, any_of: bool, attention: bool, timeout: float | str | None
) -> Steps[list[RunInfo]]:
    """Until all of them, or one, have ended, or one needs a person; in the order given."""
    if any_of or attention:
        return (yield from _wait_for_one(runs, any_of, attention, timeout))
    deadline = None if timeout is None else boottime() + seconds_given(timeout, "timeout")
    by_node: dict[str, list[RemoteRun]] = {}
    for run in runs:
        if isinstance(run, RemoteRun) and run.placement.node is not None:
            by_node.setdefault(f"{run.placement.target} {run.placement.node}", []).append(run)
    groups = [group for group in by_node.values() if len(group) > 1]
    found = yield from _ask_nodes(groups, deadline)
    jobs = [run for run in runs if isinstance(run, RemoteRun) and _waits_for_a_node(run)]
    found |= yield from _wait_for_jobs(jobs, deadline)
    rest = [run for run in runs if run.id not in found]
    # What has ended by now is told at once; of a node that fell silent each is waited for.
    steps = [_wait_for(run, False, _left(deadline)) for run in rest]
    for run, result in zip(rest, (yield from together(steps, _AT_ONCE)), strict=True):
        if isinstance(result, HoldfastError):
            raise result
        found[run.id] = result
    return [found[run.id] for run in runs]


def _waits_for_a_node(run: RemoteRun) -> bool:
    return run.placement.node is None and run.placement.bound is not None


def _ask_nodes(
    groups: Sequence[list[RemoteRun]], deadline: float | None
) -> Steps[dict[str, RunInfo]]:
    """One question for each group, which is of one node: what it said of them, by id."""
    found: dict[str, RunInfo] = {}
    for answer in (yield from together([_wait_on_node(group, deadline) for group in groups])):
        if isinstance(answer, HoldfastError):
            raise answer
        found.update((info.id, info) for info in answer)
    return found


def _wait_for_jobs(jobs: list[RemoteRun], deadline: float | None) -> Steps[dict[str, RunInfo]]:
    """Runs that an engine has still to place. Its word says when to ask, the nodes how they ended.

    A node is asked once for many: about all that are over when the last is, or after a while.
    Left out, to be waited for on its own: what the engine does not tell, or never began.
    """
    found: dict[str, RunInfo] = {}
    over = _Over()
    pause = _LOOK_SECONDS
    while len(jobs) > 1 or over.groups:
        began = boottime()
        jobs, news = yield from _looked_at(jobs)
        over.add(news)
        looked, left = boottime(), _left(deadline)
        if not jobs or left == 0 or over.is_due:
            soon = looked + _RECORDED_SECONDS
            answers = yield from _ask_nodes(
                over.take(), soon if deadline is None else min(soon, deadline)
            )
            found |= {run_id: info for run_id, info in answers.items() if not info.is_active}
        if not jobs or left == 0:
            break
        pause = _LOOK_SECONDS if news else min(pause * 1.5, LONGEST_AGAIN_SECONDS)
        seconds = max(pause, (looked - began) * _SHARE)
        yield Wait((), seconds if left is None else min(seconds, left))
    return found


class _Over:
    """Runs whose jobs are over, by their node; their nodes were not asked yet."""

    def __init__(self) -> None:
        self.groups: dict[str, list[RemoteRun]] = {}
        self._since = 0.0

    def add(self, news: dict[str, list[RemoteRun]]) -> None:
        if news and not self.groups:
            self._since = boottime()
        for node, runs in news.items():
            self.groups.setdefault(node, []).extend(runs)

    @property
    def is_due(self) -> bool:
        """Whether they have waited long enough: an engine forgets its jobs."""
        return bool(self.groups) and boottime() - self._since > _ASK_SECONDS

    def take(self) -> list[list[RemoteRun]]:
        groups, self.groups = self.groups, {}
        return list(groups.values())


def _looked_at(jobs: list[RemoteRun]) -> Steps[tuple[list[RemoteRun], dict[str, list[RemoteRun]]]]:
    """Those that wait or go on, and those that are over, by their node, as the engine says."""
    by_target: dict[str, list[RemoteRun]] = {}
    for run in jobs:
        by_target.setdefault(run.placement.target, []).append(run)
    going_on: list[RemoteRun] = []
    over: dict[str, list[RemoteRun]] = {}
    groups = list(by_target.values())
    answers = yield from together([_look_at_engine(group) for group in groups])
    for group, views in zip(groups, answers, strict=True):
        if isinstance(views, HoldfastError):
            continue
        for run, view in zip(group, views, strict=True):
            if view is not None and not view.is_gone:
                going_on.append(run)
            elif view is not None and view.node is not None and view.refusal is None:
                over.setdefault(f"{run.placement.target} {view.node}", []).append(run)
    return going_on, over


def _look_at_engine(runs: list[RemoteRun]) -> Steps[list[EngineView | None]]:
    """Of runs of one target, which are all bound."""
    placer = runs[0]._fleet.placer_of(runs[0].placement.target)
    bounds = [run.placement.bound for run in runs]
    return (yield from placer.look_at_all([one for one in bounds if one is not None]))


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - boottime())


def _wait_on_node(group: list[RemoteRun], deadline: float | None) -> Steps[list[RunInfo]]:
    """Its own holdfast waits for all of them; none: it did not answer to the end."""
    first, left = group[0], _left(deadline)
    words = ["wait", *(run.id for run in group)]
    words += [] if left is None else ["--timeout", f"{left:.3f}"]
    seconds = None if left is None else left + 60.0
    try:
        answered = yield from ask_json(first._fleet, first.placement, words, seconds=seconds)
    except (NoAnswer, RunNotFound):
        return []
    documents = [one for one in answered.document.get("runs") or () if isinstance(one, dict)]
    placements = {run.id: run.placement for run in group}
    for document in documents:
        if (placement := placements.get(str(document.get("id")))) is not None:
            keep_look(first._fleet, placement, document)
    return [info_from_node(document) for document in documents]


def _wait_for_one(
    runs: Sequence[Run], any_of: bool, attention: bool, timeout: float | str | None
) -> Steps[list[RunInfo]]:
    """Each is waited for on its own, until one is enough."""

    def is_enough(result: RunInfo | HoldfastError) -> bool:
        return any_of or not (isinstance(result, HoldfastError) or result.attention is None)

    steps = [_wait_for(run, attention, timeout) for run in runs]
    infos = []
    for run, result in zip(runs, (yield from together(steps, until=is_enough)), strict=True):
        if isinstance(result, HoldfastError):
            raise result
        infos.append((yield from _look(run)) if result is None else result)
    return infos


def _wait_for(
    run: Run, attention: bool, timeout: float | str | None
) -> Generator[Wait, set[int], RunInfo]:
    from holdfast.manage.waiting import wait_for_runs

    if isinstance(run, RemoteRun):
        return (yield from run._wait_steps(timeout, attention=attention))
    here = [run.directory]
    return (yield from wait_for_runs(here, attention=attention, timeout=timeout))[0]


def _look(run: Run) -> Steps[RunInfo]:
    if isinstance(run, RemoteRun):
        return (yield from run._info_steps())
    return run.info()


# One run


def wait_for_end(run: RemoteRun, timeout: float | str | None, *, attention: bool) -> Steps[RunInfo]:
    """Until it has ended, or needs a person; a node that does not answer is asked again."""
    deadline = None if timeout is None else boottime() + seconds_given(timeout, "timeout")
    pause = AGAIN_SECONDS
    while True:
        left = None if deadline is None else max(0.0, deadline - boottime())
        words = ["wait", run.id, *(["--attention"] if attention else [])]
        words += [] if left is None else ["--timeout", f"{left:.3f}"]
        room = None if left is None else left + _ROOM_SECONDS
        try:
            answered = yield from ask_json(run._fleet, run.placement, words, seconds=room)
        except (NoAnswer, RunNotFound) as error:
            info = yield from _look_at_one(run)
            if isinstance(error, RunNotFound) and info.state is State.UNKNOWN:
                # It may have begun and ended between the question to node and engine.
                info = yield from _look_at_one(run)
                if info.state is State.UNKNOWN:
                    raise _unseen_end(run, info) from None
            if not info.is_active:
                return info
            run._runs._notice(f"{error.message}; waiting for it")
        else:
            document = answered.document["runs"][0]
            keep_look(run._fleet, run.placement, document)
            return info_from_node(document)
        if deadline is not None and boottime() >= deadline:
            return info
        yield Wait((), pause if deadline is None else min(pause, deadline - boottime()))
        pause = min(pause * 2, LONGEST_AGAIN_SECONDS)


def _look_at_one(run: RemoteRun) -> Steps[RunInfo]:
    """Unknown, also, while the ledger does not answer."""
    try:
        return (yield from run._info_steps())
    except NoAnswer as error:
        verdict = RemoteVerdict(State.UNKNOWN, VerdictSource.NOBODY, error.message)
        return fit_info(run.placement, verdict, None)


def _unseen_end(run: RemoteRun, info: RunInfo) -> RunNotFound:
    """Its node answers, and has it no more: nobody will see how it ended."""
    return RunNotFound(
        f"{run.placement.name} ({run.id}): {info.evidence}; its end was not seen",
        hint=f"holdfast fleet give-up {run.id}: it is lost then, and its key is free",
        run=run.id,
    )
