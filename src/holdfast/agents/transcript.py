"""Finds the file in which an agent records a session, and reads from it that the work is over.

Reading starts at the end found at discovery: a resumed transcript already holds the marks of
earlier turns (test_C2_...). A record that is half written there is read when it is whole. Reads
files, writes none; a file that is gone is no error.
"""

from __future__ import annotations

import os
import re
import stat

from holdfast.agents.arguments import has_many_turns, is_headless
from holdfast.agents.facts import CompletionProven, ResultRead
from holdfast.agents.profile import value_at
from holdfast.agents.records import Line, text_at
from holdfast.agents.rules import UsageTally, completion
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    from holdfast.agents.facts import Fact
    from holdfast.agents.profile import AgentProfile, CompletionRule, Json, TranscriptRules

_READ_BYTES = 1024 * 1024  # in one poll
_TAIL_BYTES = 64 * 1024
_MAX_LINE = 32 * 1024 * 1024
_FIRST_LINE = 64 * 1024


def find_transcript(
    profile: AgentProfile, session: str, *, cwd: str, env: Mapping[str, str]
) -> str | None:
    """The session's file, by the environment and directory that the agent runs in."""
    rules = profile.transcript
    root = _root(rules, env) if rules else None
    if rules is None or root is None:
        return None
    fields = {
        "home": "",
        "session": session,
        "session_start": session[:8],
        "cwd_dashed": re.sub(r"[^A-Za-z0-9]", "-", cwd),
    }
    for path in rules.paths:
        found = [
            one for one in _matching(root, path.format(**fields)) if _is_of(rules, one, session)
        ]
        if found:
            return max(found, key=_changed_at)
    return None


def _root(rules: TranscriptRules, env: Mapping[str, str]) -> str | None:
    if rules.root_variable and (named := env.get(rules.root_variable)):
        return os.path.join(named, rules.root_below_variable)
    home = env.get("HOME")
    return rules.root.format(home=home) if home else None


def _matching(root: str, path: str) -> Iterator[str]:
    """Files below root on that path, whose steps may hold `*`. (glob costs a launch.)"""
    step, _, rest = path.partition("/")
    if "*" not in step:
        names = [step]
    else:
        pattern = re.compile(".*".join(map(re.escape, step.split("*"))))
        names = [name for name in _names(root) if pattern.fullmatch(name)]
    for name in names:
        below = os.path.join(root, name)
        if rest:
            yield from _matching(below, rest)
        elif os.path.isfile(below):
            yield below


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _is_of(rules: TranscriptRules, path: str, session: str) -> bool:
    """Where a file's name holds only a part of the id, its first record must hold it whole."""
    if rules.confirm is None:
        return True
    try:
        with _open(path) as opened:
            first = opened.readline(_FIRST_LINE)
    except OSError:
        return False
    return any(value_at(record, rules.confirm) == session for record in Line(first).records)


class _Pending(Record):
    """A completion that counts only if the transcript stays quiet."""

    facts: tuple[CompletionProven | ResultRead, ...]
    due: float


class TranscriptReader:
    """One transcript from its present size on (or `start`); `poll` reads what was added."""

    def __init__(
        self,
        profile: AgentProfile,
        path: str,
        arguments: Sequence[str] = (),
        *,
        start: int | None = None,
    ) -> None:
        assert profile.transcript is not None
        self.path = path
        self._rules = profile.transcript
        # In a terminal, the end of a turn is not the end of the run.
        self._ends_with_turn = is_headless(profile.options, arguments) and not has_many_turns(
            profile.options, arguments
        )
        self._tallies = [UsageTally(rule) for rule in self._rules.usage]
        self._at = _end_of_records(path) if start is None else start
        self.is_behind = False  # the last poll left something unread
        self._carried = b""
        self._skipping = False
        self._pending: _Pending | None = None

    def poll(self, now: float) -> list[Fact]:
        """The facts since the last poll; `now` is any clock that runs forward, in seconds."""
        found: list[Fact] = []
        for line, at_byte in self._new_lines():
            found += self._read(Line(line), at_byte, now)
        if self._pending is not None and self._pending.due <= now:
            found += self._pending.facts
            self._pending = None
        return found

    def _read(self, line: Line, at_byte: int, now: float) -> Iterator[Fact]:
        for tally in self._tallies:
            for record in line.seen_by(tally.rule.when):
                yield from tally.add(record)
        if not self._ends_with_turn:
            return
        if any(begin.holds(record) for record in line.records for begin in self._rules.anew):
            self._pending = None
        for rule in self._rules.completion:
            for record in line.seen_by(rule.when):
                facts = _ending(rule, record, at_byte)
                if rule.settle_seconds:
                    self._pending = _Pending(facts, now + rule.settle_seconds)
                else:
                    yield from facts

    def _new_lines(self) -> Iterator[tuple[bytes, int]]:
        chunk = self._new_bytes()
        self.is_behind = len(chunk) == _READ_BYTES
        yield from self._split(chunk)

    def _split(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        *lines, rest = (self._carried + chunk).split(b"\n")
        at_byte = self._at - len(chunk) - len(self._carried)
        for line in lines:
            if not self._skipping:
                yield line, at_byte
            self._skipping = False
            at_byte += len(line) + 1
        if len(rest) > _MAX_LINE:
            self._skipping, rest = True, b""
        self._carried = rest

    def _new_bytes(self) -> bytes:
        if _size(self.path) < self._at:
            # Rewritten shorter: what is in it now is old.
            self._at, self._carried = _end_of_records(self.path), b""
            return b""
        try:
            with _open(self.path) as opened:
                opened.seek(self._at)
                chunk = opened.read(_READ_BYTES)
        except OSError:
            return b""
        self._at += len(chunk)
        return chunk


def _open(path: str) -> BinaryIO:
    """Open to read, never to wait: who writes it may put a FIFO or a device in its place."""
    opened = open(path, "rb", opener=_at_once)
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(f"{path} is no file")
    return opened


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _end_of_records(path: str) -> int:
    """Where the last whole record ends: what is after it is being written by this run.

    A record that is whole but for its newline may be the last of a turn that was cut off.
    """
    try:
        with _open(path) as opened:
            end = opened.seek(0, os.SEEK_END)
            tail = b""
            while b"\n" not in tail and len(tail) < min(end, _MAX_LINE):
                begin = max(0, end - 2 * len(tail) - _TAIL_BYTES)
                opened.seek(begin)
                tail = opened.read(end - begin)
    except OSError:
        return 0
    unfinished = tail.rpartition(b"\n")[2]
    is_whole = bool(unfinished.strip()) and bool(Line(unfinished).records)
    return end if is_whole or len(unfinished) > _MAX_LINE else end - len(unfinished)


def _ending(
    rule: CompletionRule, record: Json, at_byte: int
) -> tuple[CompletionProven | ResultRead, ...]:
    proven = completion(rule, record, "transcript", at_byte)
    text = text_at(record, rule.text)
    return (proven,) if text is None else (ResultRead(text, proven.is_error), proven)
