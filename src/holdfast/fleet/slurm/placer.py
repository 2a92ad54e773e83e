"""Slurm places: a job is submitted held, recorded in the ledger, then released.

The batch process is the attendant, which starts the run inside the job and waits for it. A command
reaches the run as a step of that job; once the job is over, as a short job on the same node. Such a
step never starts or adopts anything: that would end with the step.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, NoAnswer, Refused, Unavailable
from holdfast.fleet.channel import Channel
from holdfast.fleet.placement import EngineView, Reservation
from holdfast.fleet.placer import StartAnswer, nothing_started
from holdfast.fleet.programs import run_program
from holdfast.fleet.session import (
    StartSession,
    commit_over,
    read_answer,
    relay_line,
    start_document,
    tty_word,
)
from holdfast.fleet.slurm.harmful import check_settings, refuse_settings
from holdfast.fleet.slurm.limits import grace_of
from holdfast.fleet.slurm.submission import (
    attendant_request,
    batch_environment,
    job_name,
    sbatch_words,
)
from holdfast.fleet.slurm.words import (
    JOB_FORMAT,
    SlurmConfig,
    batch_script,
    node_line,
    read_job,
    read_jobs,
)
from holdfast.lean import json_text
from holdfast.manage.doctor.findings import failed, works
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.fleet.placement import Placement
    from holdfast.fleet.placer import NodeCall
    from holdfast.fleet.programs import ProgramEnd
    from holdfast.fleet.request import FleetRequest
    from holdfast.fleet.settings import FleetTarget
    from holdfast.fleet.slurm.words import SlurmJob
    from holdfast.manage.doctor.findings import DoctorFinding
    from holdfast.manage.operations import Steps

_HAND_SECONDS = 60.0
_AGAIN_SECONDS = 0.1
_LONGEST_AGAIN_SECONDS = 2.0
_IMMEDIATE_SECONDS = 10  # in which a node has to have room for a short job
_NO_SHIMS = "this command is a step of a Slurm job, and what it starts would end with it"


class SlurmPlacer:
    """One partition, or the default one."""

    kind = "slurm"

    def __init__(self, target: FleetTarget) -> None:
        self._target = target
        self._settings = target.settings
        self._config: SlurmConfig | None = None
        self._held: set[str] = set()  # jobs that this process has submitted, and not released

    def close(self) -> None:
        """Nothing is kept open."""

    def reserve(self, placement: Placement, is_new: bool) -> Steps[Reservation]:
        """A held job: Slurm does not start what no ledger has recorded."""
        config = yield from self._read_config()
        grace = grace_of(placement.request)
        refuse_settings(config, grace)
        name = job_name(placement)
        job = "" if is_new else (yield from self._submitted(name))
        if not job:
            job = yield from self._submit(placement, grace)
            self._held.add(job)
        return Reservation("slurm", {"job": job, "name": name, "cluster": config.cluster})

    def _submitted(self, name: str) -> Steps[str]:
        """The job that a submitter which died has left."""
        words = ("--noheader", "--me", "-t", "PD", "-n", name, "-o%i")
        found = yield from self._call("squeue", *words)
        return (found.output.split() or [""])[0]

    def _submit(self, placement: Placement, grace: float) -> Steps[str]:
        words = sbatch_words(self._target, placement, grace)
        asked = attendant_request(placement)
        script = batch_script(self._settings.command, self._settings.home, asked)
        made = yield from self._call("sbatch", *words, stdin=script, env=batch_environment())
        return made.output.strip().split(";")[0]

    def commit(
        self, placement: Placement, bound: Reservation, request: FleetRequest | None
    ) -> Steps[StartAnswer | None]:
        """Release the job that the ledger names. What has secrets is handed over once it runs."""
        if request is not None and (yield from self._release_own(bound)):
            if placement.is_whole:
                return StartAnswer(None, None)
            return (yield from self._hand_over(placement, bound, request))
        job = yield from self._job(bound)
        if job is None:
            raise _forgotten(bound)
        if job.never_began:
            raise nothing_started(
                Unavailable(f"Slurm's job {bound.handle['job']} was cancelled before it began")
            )
        if job.is_held:
            if request is None:
                return None
            yield from self._call("scontrol", "release", bound.handle["job"])
        if placement.is_whole:
            return StartAnswer(None, None, was_before=not job.is_held)
        if request is None:
            return StartAnswer(None, None, was_before=True)
        return (yield from self._hand_over(placement, bound, request))

    def _release_own(self, bound: Reservation) -> Steps[bool]:
        """Release a job that this process has submitted just now. False: look at it first."""
        job = str(bound.handle["job"])
        if job not in self._held:
            return False
        self._held.discard(job)
        words = ("scontrol", "release", job)
        ended = yield from run_program(words, seconds=self._settings.answer_seconds)
        return not ended.code

    def _hand_over(
        self, placement: Placement, bound: Reservation, request: FleetRequest
    ) -> Steps[StartAnswer | None]:
        """Give the attendant its request, as soon as it is there: secrets are in no job script."""
        pause = _AGAIN_SECONDS
        while not (job := (yield from self._job(bound))) or not job.is_reachable:
            if job is None or not job.is_waiting:
                raise nothing_started(_over_too_early(bound, job))
            yield Wait((), pause)
            pause = min(pause * 2, _LONGEST_AGAIN_SECONDS)
        try:
            return (yield from self._hand(placement, bound, request))
        except NoAnswer:
            job = yield from self._job(bound)
            if job is None or not job.refusal:
                raise
            raise nothing_started(_over_too_early(bound, job)) from None

    def _hand(
        self, placement: Placement, bound: Reservation, request: FleetRequest
    ) -> Steps[StartAnswer | None]:
        argv = [*self._step(bound), "/bin/sh", "-lc", self._line("hand", placement.id)]
        with self._channel(argv) as channel:
            facts = yield from channel.hello()
            document = start_document(placement, facts.node, request)
            yield from channel.write(json_text(document).encode("ascii") + b"\n")
            channel.end_input()
            answered = yield from channel.line(boottime() + _HAND_SECONDS)
        return read_answer(answered, facts)

    def renew(self, placement: Placement, bound: Reservation) -> Steps[StartAnswer | None]:
        """Release it again: a slurmctld that was killed has lost what it had not saved.

        It may have begun before that, on any node: each is asked first.
        """
        job = yield from self._job(bound)
        if job is None:
            raise _forgotten(bound)
        if not job.is_held_by_user:
            return None
        shown = yield from self._call("sinfo", "--noheader", "--Node", *self._partition(), "-o%N")
        for node in sorted(set(shown.output.split())):
            found = yield from self._find(placement, node)
            if found is not None:
                return found
        yield from self._call("scontrol", "release", bound.handle["job"])
        return StartAnswer(None, None)

    def _find(self, placement: Placement, node: str) -> Steps[StartAnswer | None]:
        """Whether that node has started it."""
        argv = [*self._short_job(node), "/bin/sh", "-lc", self._line("start")]
        session = StartSession(self._channel(argv), f"{self._target.where} ({node})")
        try:
            yield from session.begin(())
            return (yield from commit_over(session, placement, session.facts.node, None))
        finally:
            session.close()

    def _partition(self) -> list[str]:
        return [f"--partition={self._target.name}"] if self._target.name else []

    def look(self, bound: Reservation) -> Steps[EngineView | None]:
        """What Slurm says of the job."""
        return _view_of((yield from self._job(bound)), bound)

    def look_at_all(self, bounds: Sequence[Reservation]) -> Steps[list[EngineView | None]]:
        """One squeue for all of them; without when and why of a state."""
        numbers = ",".join(str(bound.handle["job"]) for bound in bounds)
        words = ("squeue", "--noheader", "--states=all", "--jobs", numbers, "--format", JOB_FORMAT)
        shown = yield from run_program(words, seconds=self._settings.answer_seconds)
        if shown.code and "Invalid job id" not in shown.errors:
            raise _no_answer(shown)
        jobs = read_jobs(shown.output)
        return [_view_of(jobs.get(str(bound.handle["job"])), bound) for bound in bounds]

    def _job(self, bound: Reservation) -> Steps[SlurmJob | None]:
        """None: Slurm has forgotten it, or has given its number to another."""
        words = ("scontrol", "show", "job", "--oneliner", str(bound.handle["job"]))
        shown = yield from run_program(words, seconds=self._settings.answer_seconds)
        if shown.code:
            if "Invalid job id" in shown.errors:
                return None
            raise _no_answer(shown)
        job = read_job(shown.output.strip())
        return job if job.name == bound.handle["name"] else None

    def reach(self, placement: Placement, call: NodeCall) -> Steps[Channel]:
        """The node's own holdfast: as a step of the job, or as a job of its own."""
        argv = yield from self._way(placement)
        channel = self._channel(
            [*argv, "/bin/sh", "-lc", self._line("relay")], shows_errors=call.shows_errors
        )
        line = relay_line(
            call.words, placement.node, columns=call.columns, may_start=False, why=_NO_SHIMS
        )
        yield from channel.write(line + call.stdin)
        channel.end_input()
        return channel

    def _way(self, placement: Placement) -> Steps[list[str]]:
        bound = placement.bound
        if bound is None or "job" not in bound.handle:
            return self._short_job(None)  # for a command that is about no run
        job = yield from self._job(bound)
        if job is not None and job.is_reachable:
            return self._step(bound)
        node = placement.node_name or (None if job is None else job.node)
        if node is None:
            word = "is unknown to Slurm" if job is None else f"is {job.state} ({job.reason})"
            raise NoAnswer(f"job {bound.handle['job']} {word}: it has no node to ask")
        return self._short_job(node)

    def _step(self, bound: Reservation) -> list[str]:
        job = str(bound.handle["job"])
        return ["srun", "--quiet", "--overlap", "--jobid", job, "--ntasks=1", "--export=NONE"]

    def _short_job(self, node: str | None) -> list[str]:
        words = ["srun", "--quiet", "--ntasks=1", "--export=NONE", "--job-name=hf-look"]
        words.append(f"--immediate={_IMMEDIATE_SECONDS}")
        words += self._partition()
        return [*words, *([] if node is None else [f"--nodelist={node}"])]

    def attach_argv(self, placement: Placement, words: Sequence[str]) -> list[str]:
        """The program that runs a command of the node's own holdfast on our terminal."""
        bound = placement.bound
        assert bound is not None
        line = self._line("relay", tty_word(words, placement.node))
        step = self._step(bound)
        return [*step[:-1], "--export=TERM", "--pty", "/bin/sh", "-lc", line]

    def cancel(self, reservation: Reservation) -> Steps[None]:
        """Take the job back; one that is gone is as good."""
        yield from self.end(reservation)

    def end(self, bound: Reservation) -> Steps[str | None]:
        """`scancel`: the attendant gets SIGTERM and stops the run, as soon as slurmd answers."""
        job = yield from self._job(bound)
        if job is None or job.view().is_gone:
            return None
        words = ("scancel", "--quiet", str(bound.handle["job"]))
        ended = yield from run_program(words, seconds=self._settings.answer_seconds)
        if ended.code and "Invalid job id" not in ended.errors:
            raise _no_answer(ended)
        return f"Slurm was asked to end its job {bound.handle['job']} (scancel)"

    def check(self) -> Steps[list[DoctorFinding]]:
        """Settings that would harm a run, and whether there is such a partition."""
        try:
            config = yield from self._read_config()
        except HoldfastError as error:
            return [failed("slurm", error.message, error.hint)]
        found = list(check_settings(config))
        if self._target.name:
            shown = yield from self._call("sinfo", "--noheader", "-p", self._target.name, "-o%P")
            found.append(
                works("partition", f"{self._target.name} is there")
                if shown.output.strip()
                else failed("partition", f"there is no {self._target.name}", "sinfo lists them")
            )
        return found

    def _read_config(self) -> Steps[SlurmConfig]:
        if self._config is None:
            shown = yield from self._call("scontrol", "show", "config")
            self._config = SlurmConfig.read(shown.output)
        return self._config

    def _call(
        self, *argv: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> Steps[ProgramEnd]:
        seconds = self._settings.answer_seconds
        ended = yield from run_program(argv, stdin=stdin, seconds=seconds, env=env)
        if ended.code:
            raise _no_answer(ended, argv[0])
        return ended

    def _channel(self, argv: Sequence[str], *, shows_errors: bool = False) -> Channel:
        return Channel(
            argv,
            self._target.where,
            answer_seconds=self._settings.answer_seconds,
            shows_errors=shows_errors,
        )

    def _line(self, *words: str) -> str:
        return node_line(self._settings.command, self._settings.home, *words)


def _view_of(job: SlurmJob | None, bound: Reservation) -> EngineView:
    """None, and a job of another name, which has got its number: Slurm has forgotten it."""
    if job is None or job.name != bound.handle["name"]:
        word = f"nothing of job {bound.handle['job']} any more"
        return EngineView("slurm", word, is_gone=True)
    return job.view()


def _forgotten(bound: Reservation) -> NoAnswer:
    """It may have run; or slurmctld was killed before it had saved that there was such a job."""
    return NoAnswer(
        f"Slurm does not know job {bound.handle['job']} any more, and no node is known to have it",
        hint="holdfast fleet give-up RUN, if the run is known to be gone",
    )


def _over_too_early(bound: Reservation, job: SlurmJob | None) -> HoldfastError:
    if job is not None and job.refusal:
        return Refused(f"{job.node} did not start it: {job.refusal}")
    says = f"Slurm's job {bound.handle['job']} was over before its secrets could be handed over"
    return Unavailable(says, hint="try again")


def _no_answer(ended: ProgramEnd, program: str = "Slurm") -> NoAnswer:
    hint = "`scontrol ping` says whether slurmctld answers"
    return NoAnswer(f"{program} failed: {ended.last_line}", hint=hint)
