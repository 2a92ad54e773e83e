"""Reads what a recognised agent says about itself: session, completion, usage, answer, limits.

The profile is data; the readers are pure. Here their facts become events, and a proven
completion begins the drain.
"""

from __future__ import annotations

from holdfast.agents.arguments import continues_session
from holdfast.agents.facts import CompletionProven, LimitHit, ResultRead, SessionFound, UsageRead
from holdfast.agents.loader import load_profile
from holdfast.agents.resume import own_arguments
from holdfast.agents.stream import StreamReader
from holdfast.agents.transcript import TranscriptReader, find_transcript
from holdfast.process.clock import boottime
from holdfast.process.resolution import Sought
from holdfast.run.events import Kind
from holdfast.run.redaction import redact_text
from holdfast.shim.watchers import Completion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agents.facts import Fact
    from holdfast.shim.output_watch import OutputWatch
    from holdfast.shim.supervisor import Supervisor

TRANSCRIPT_SECONDS = 2.0
TURN_SECONDS = 0.05
MOST_SEARCHES = 30  # an agent may be told not to write a transcript


class AgentWatch:
    """One agent's output and transcript."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch, agent: str) -> None:
        self._supervisor = supervisor
        self._profile = load_profile(agent)
        self._completion = Completion(supervisor, self._profile.drain_seconds)
        _, self._arguments = own_arguments(self._profile, supervisor.spec.command)
        self._stream = StreamReader(self._profile, self._arguments)
        self._transcript: TranscriptReader | None = None
        self._searches = 0
        self._is_new_session = not continues_session(self._profile.options, self._arguments)
        self._stream_counts = False  # stdout tells the usage: the transcript is not asked for it
        output.on_lines.append(self._take_lines)

    @property
    def sought(self) -> Sought:
        """How the workload of this agent is told."""
        told = self._profile.workload
        fits = None if told.cmdline is None else told.cmdline.search
        return Sought(told.comm, fits, told.relaunches)

    def _take_lines(self, lines: Sequence[tuple[int, bytes]]) -> Sequence[tuple[int, bytes]]:
        until = boottime() + TURN_SECONDS
        for number, (at_byte, line) in enumerate(lines):
            for fact in self._stream.feed(line, at_byte):
                self._stream_counts |= isinstance(fact, UsageRead)
                self._take(fact)
            if boottime() > until:
                return lines[number + 1 :]
        return ()

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
            known = {name: value for name, value in fact.as_dict().items() if value is not None}
            if {**journal.facts.usage, **known} != journal.facts.usage:
                journal.record(Kind.USAGE_READ, **known)
        elif isinstance(fact, ResultRead):
            journal.record(Kind.RESULT_READ, text=redact_text(fact.text), is_error=fact.is_error)
        elif isinstance(fact, LimitHit):
            journal.record(Kind.LIMIT_HIT, retry_at=fact.retry_at, text=redact_text(fact.text))

    def _session_found(self, session: str) -> None:
        spec = self._supervisor.spec
        path = find_transcript(self._profile, session, cwd=spec.cwd, env=spec.env)
        known = self._supervisor.journal.facts.session or {}
        if (known.get("id"), known.get("transcript")) != (session, path):
            self._supervisor.journal.record(Kind.SESSION_FOUND, id=session, transcript=path)
        if self._profile.transcript is None:
            return
        if path is None:  # it is written a moment later
            self._searches += 1
            if self._searches > MOST_SEARCHES:
                return
            self._supervisor.loop.after(
                "transcript", TRANSCRIPT_SECONDS, lambda: self._session_found(session)
            )
        elif self._transcript is None or self._transcript.path != path:
            # A transcript that came after the session's first sign is this run's from its first
            # byte, unless it is a copy of an earlier session's.
            start = 0 if self._searches and self._is_new_session else None
            self._transcript = TranscriptReader(self._profile, path, self._arguments, start=start)
            self._poll_transcript()

    def _poll_transcript(self) -> None:
        seconds = 0.0 if self._read_transcript() else TRANSCRIPT_SECONDS
        self._supervisor.loop.after("transcript", seconds, self._poll_transcript)

    def _read_transcript(self) -> bool:
        """What stdout has told already is not asked of the transcript. True: there is more."""
        if self._transcript is None:
            return False
        for fact in self._transcript.poll(boottime()):
            is_known = self._supervisor.journal.facts.completion is not None
            if isinstance(fact, UsageRead):
                is_known = self._stream_counts
            if not is_known:
                self._take(fact)
        return self._transcript.is_behind

    def last_look(self) -> bool:
        """Before the ending: what the transcript got last. True: there is more."""
        if self._read_transcript():
            return True
        session = self._supervisor.journal.facts.session or {}
        if session.get("id") and session.get("transcript") is None:
            # The first search came too early, and the run was over before the next.
            self._session_found(str(session["id"]))
        return False
