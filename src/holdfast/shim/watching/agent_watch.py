"""Reads what a recognised agent says about itself: session, completion, usage, answer, limits.

The profile is data; the readers are pure. Here their facts become events, and a proven
completion begins the drain.
"""

from __future__ import annotations

from holdfast.agents.arguments import continues_session, is_headless
from holdfast.agents.facts import (
    BudgetGivenUp,
    CompletionProven,
    LimitHit,
    ResultRead,
    SessionFound,
    UsageRead,
)
from holdfast.agents.loader import load_profile
from holdfast.agents.resume import own_arguments, resume_command
from holdfast.agents.stream import StreamReader
from holdfast.agents.transcript import TranscriptReader, find_transcript
from holdfast.agents.usage import UsageMeter
from holdfast.process.clock import boottime
from holdfast.process.workload.resolution import Sought
from holdfast.run.events import Kind
from holdfast.run.redaction import redact_text
from holdfast.shim.watching.spending import Spending
from holdfast.shim.watching.watchers import CompletionDrain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.agents.facts import Fact
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.watching.hooks import AgentHooks
    from holdfast.shim.watching.output_watch import OutputWatch

TRANSCRIPT_SECONDS = 2.0
HURRIED_SECONDS = 0.5  # while what is in it may use a budget up
TURN_SECONDS = 0.05
MOST_SEARCHES = 30  # an agent may be configured to write no transcript


class AgentWatch:
    """One agent's output and transcript; each attempt starts afresh."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch, agent: str) -> None:
        self._supervisor = supervisor
        self._profile = load_profile(agent)
        self._completion = CompletionDrain(supervisor, self._profile.drain_seconds)
        self._spending = Spending(supervisor)
        self._output = output
        self._begin(supervisor.journal.facts.attempt.number)
        output.on_lines.append(self._take_lines)

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        command = self._supervisor.journal.facts.attempt.command or self._supervisor.spec.command
        _, self._arguments = own_arguments(self._profile, command)
        self._is_new_session = not continues_session(self._profile.options, self._arguments)
        self._is_resting = False
        self._meter = UsageMeter(self._profile, self._arguments)
        self._stream = StreamReader(self._profile, self._arguments, meter=self._meter)
        self._transcript: TranscriptReader | None = None
        self._searches = 0
        self._supervisor.loop.cancel("transcript")

    def attempt_over(self) -> None:
        """What it used is on record before another one begins; its transcript grows no more."""
        self._spending.flush()
        self._is_resting = True

    def resume_words(self, session: str) -> list[str]:
        """The command that goes on with that session."""
        return resume_command(self._profile, self._supervisor.spec.command, session, None)

    def listen_to_hooks(self) -> AgentHooks | None:
        """The reader of what its hooks report; None: it has none that report, or they are off."""
        rules, spec = self._profile.hooks, self._supervisor.spec
        if rules is None or spec.wanted.agent_hooks == "off":
            return None
        from holdfast.shim.watching.hooks import AgentHooks

        talks = spec.pty and not is_headless(self._profile.options, self._arguments)
        return AgentHooks(self._supervisor, rules, self, talks=talks)

    @property
    def sought(self) -> Sought:
        """How the workload of this agent is recognised."""
        told = self._profile.workload
        fits = None if told.cmdline is None else told.cmdline.search
        return Sought(told.comm, fits, told.relaunches)

    def _take_lines(self, lines: Sequence[tuple[int, bytes]]) -> Sequence[tuple[int, bytes]]:
        until = boottime() + TURN_SECONDS
        latest = self._supervisor.journal.facts.attempt
        for number, (at_byte, line) in enumerate(lines):
            # What an attempt wrote may be read when the next one is under way.
            is_later = latest.number > self._attempt and latest.is_exec_confirmed
            if is_later and at_byte >= latest.log_start_byte:
                self._spending.begin_attempt()
                self._begin(latest.number)
            self._take_all(self._stream.feed(line, at_byte))
            if boottime() > until:
                return lines[number + 1 :]
        return ()

    def _take_all(self, facts: Sequence[Fact]) -> None:
        """Judge budgets last: a completed attempt is not stopped over budget."""
        for fact in facts:
            self._take(fact)
        if any(isinstance(fact, UsageRead) for fact in facts):
            self._spending.judge()

    def _take(self, fact: Fact) -> None:
        journal = self._supervisor.journal
        if isinstance(fact, SessionFound):
            self._session_found(fact.id)
        elif isinstance(fact, CompletionProven):
            proof = redact_text(fact.proof)
            self._completion.proven(
                fact.source, proof, is_error=fact.is_error, at_byte=fact.at_byte
            )
        elif isinstance(fact, UsageRead):
            self._spending.take(fact)
        elif isinstance(fact, ResultRead):
            read: dict[str, Any] = {"text": redact_text(fact.text), "is_error": fact.is_error}
            if read != journal.facts.attempt.result:  # stdout and a hook may both say it
                journal.record(Kind.RESULT_READ, **read)
        elif isinstance(fact, BudgetGivenUp):
            self._spending.given_up()
        elif isinstance(fact, LimitHit):
            self._limit_hit(fact)

    def _limit_hit(self, hit: LimitHit) -> None:
        """Not again what an earlier shim read: "in an hour" was said then."""
        known = self._supervisor.journal.facts.attempt.limit
        if known is None or (known.get("retry_at") is None and hit.retry_at is not None):
            record = self._supervisor.journal.record
            record(Kind.LIMIT_HIT, retry_at=hit.retry_at, text=redact_text(hit.text))

    def take_reported(self, facts: Sequence[Fact]) -> None:
        """What its hooks say, which is about the attempt that goes on."""
        latest = self._supervisor.journal.facts.attempt
        if latest.number > self._attempt:
            self._spending.begin_attempt()
            self._begin(latest.number)
        for fact in facts:
            if isinstance(fact, SessionFound):
                self._session_reported(fact.id)
            else:
                self._take(fact)

    def _session_reported(self, session: str) -> None:
        """Its file is there from the first prompt on, which may come late."""
        is_known = self._known_session(session, self._path)
        if is_known and self._transcript is not None:
            return
        self._searches = 0
        self._session_found(session)

    @property
    def _path(self) -> str | None:
        return None if self._transcript is None else self._transcript.path

    def _session_found(self, session: str) -> None:
        spec = self._supervisor.spec
        path = find_transcript(self._profile, session, cwd=spec.cwd, env=spec.env)
        is_followed = self._transcript is not None and self._transcript.path == path
        if path is not None and not is_followed:
            self._transcript = self._open_transcript(session, path)
        self._record_session(session, path)
        if self._profile.transcript is None:
            return
        if path is None:  # it is written a moment later
            self._searches += 1
            if self._searches > MOST_SEARCHES:
                return
            self._supervisor.loop.after(
                "transcript", TRANSCRIPT_SECONDS, lambda: self._session_found(session)
            )
        elif not is_followed:
            self._poll_transcript()

    def _open_transcript(self, session: str, path: str) -> TranscriptReader:
        known = self._known_session(session, path)
        return TranscriptReader(
            self._profile,
            path,
            self._arguments,
            meter=self._meter,
            # One that appeared after the session's id belongs to this attempt from its first byte,
            # unless it is a copy of an earlier session's.
            is_new=bool(self._searches) and self._is_new_session,
            since=self._supervisor.journal.facts.attempt.started_at,
            starts=known.get("from_bytes"),  # where an earlier shim began to read
        )

    def _known_session(self, session: str, path: str | None) -> dict[str, Any]:
        """What is recorded of that session in this attempt; empty: nothing."""
        known = self._supervisor.journal.facts.session or {}
        recorded = (known.get("id"), known.get("transcript"), known.get("attempt"))
        return known if recorded == (session, path, self._attempt) else {}

    def _record_session(self, session: str, path: str | None) -> None:
        if not self._known_session(session, path):
            begun = None if self._transcript is None else self._transcript.from_bytes
            self._supervisor.journal.record(
                Kind.SESSION_FOUND,
                id=session,
                transcript=path,
                attempt=self._attempt,
                from_bytes=begun,
            )

    def _poll_transcript(self) -> None:
        is_budgeted = self._supervisor.spec.wanted.max_tokens is not None
        rest = HURRIED_SECONDS if is_budgeted else TRANSCRIPT_SECONDS
        is_behind = self._read_transcript()
        if is_behind or not self._is_resting:
            seconds = 0.0 if is_behind else rest
            self._supervisor.loop.after("transcript", seconds, self._poll_transcript)

    def _read_transcript(self) -> bool:
        """Skips what stdout has shown already. True: there is more to read."""
        if self._transcript is None:
            return False
        facts = self._transcript.poll(boottime())
        if self._supervisor.journal.facts.attempt.completion is not None:
            facts = [fact for fact in facts if isinstance(fact, UsageRead)]
        self._take_all(facts)
        return self._transcript.is_behind

    def last_look(self) -> bool:
        """Before the ending: the last lines of the transcript. True: there is more to read."""
        if self._read_transcript():
            return True
        at_byte, last = self._output.unfinished  # claude's last words in plain text have no newline
        self._take_all(self._stream.feed(last, at_byte))
        session = self._supervisor.journal.facts.session or {}
        if session.get("id") and session.get("transcript") is None:
            # The first search came too early, and the run was over before the next.
            self._session_found(str(session["id"]))
        self._spending.flush()
        return False
