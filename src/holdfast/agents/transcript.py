"""Finds the file in which an agent records a session, and reads from it that the work is over.

Of what is there at discovery only the records of this run are read: a resumed transcript already
holds the marks of earlier turns (test_C2_...). Reads files, writes none; a file that is gone is no
error.
"""

from __future__ import annotations

import os
import re

from holdfast.agents.arguments import has_many_turns, is_headless
from holdfast.agents.facts import CompletionProven, ResultRead
from holdfast.agents.growing_file import (
    GrowingFile,
    first_since,
    lines_before,
    open_at_once,
)
from holdfast.agents.json_lines import JsonLine, text_at
from holdfast.agents.profile import value_at
from holdfast.agents.rules import completion
from holdfast.agents.usage import TRANSCRIPT, UsageMeter
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.agents.facts import Fact
    from holdfast.agents.profile import AgentProfile, CompletionRule, Json, TranscriptRules

_READ_BYTES = 1024 * 1024  # in one poll
_FIRST_LINE = 64 * 1024
_MAIN = ""  # the name of the session's own file among those that are read
_MOST_FILES = 500


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
        with open_at_once(path) as opened:
            first = opened.readline(_FIRST_LINE)
    except OSError:
        return False
    return any(value_at(record, rules.confirm) == session for record in JsonLine(first).records)


class _Pending(Record):
    """A completion that counts only if the transcript stays quiet."""

    facts: tuple[CompletionProven | ResultRead, ...]
    due: float


class TranscriptReader:
    """One session's transcript, and those of its subagents; `poll` reads what was added.

    `starts` are the bytes to read from, by file (`from_bytes` of an earlier reader). Without them,
    what is there at first is read as far as it was written `since` then, where records have a
    time; else not at all, or all of it, when the session `is_new`.
    """

    def __init__(
        self,
        profile: AgentProfile,
        path: str,
        arguments: Sequence[str] = (),
        *,
        meter: UsageMeter | None = None,
        is_new: bool = False,
        since: str | None = None,
        starts: Mapping[str, int] | None = None,
    ) -> None:
        assert profile.transcript is not None
        self.path = path
        self._rules = profile.transcript
        # In a terminal, the end of a turn is not the end of the run.
        self._ends_with_turn = is_headless(profile.options, arguments) and not has_many_turns(
            profile.options, arguments
        )
        self._meter = meter or UsageMeter(profile, arguments)
        self._folder = os.path.splitext(path)[0]
        self._files: dict[str, GrowingFile] = {}
        for name, one in {_MAIN: path, **self._subagents()}.items():
            if starts is not None:
                start: int | None = starts.get(name, 0)
            elif since is not None and self._rules.at is not None:
                start = first_since(one, self._rules.at, since)
            else:
                start = 0 if is_new else None
            self._files[name] = GrowingFile(one, start)
        if self._rules.before:
            earlier = lines_before(path, self._files[_MAIN].start)
            self._meter.begin_after(map(JsonLine, earlier))
        self.is_behind = False  # the last poll left something unread
        self._pending: _Pending | None = None

    @property
    def from_bytes(self) -> dict[str, int]:
        """Where the reading of each file began, the session's own under an empty name.

        A file that is not named here is read from its first byte.
        """
        return {name: file.start for name, file in self._files.items() if file.start}

    def poll(self, now: float) -> list[Fact]:
        """The facts since the last poll; `now` is any clock that runs forward, in seconds."""
        for name, path in self._subagents().items():
            if name not in self._files and len(self._files) < _MOST_FILES:
                self._files[name] = GrowingFile(path, 0)
        found: list[Fact] = []
        left = _READ_BYTES
        for name, file in self._files.items():
            lines, length = file.new_lines(left)
            left -= length
            for line, at_byte in lines:
                found += self._read(JsonLine(line), at_byte, now, is_main=name == _MAIN)
            if not left:
                break
        self.is_behind = not left
        if self._pending is not None and self._pending.due <= now:
            found += self._pending.facts
            self._pending = None
        return found

    def _subagents(self) -> dict[str, str]:
        if self._rules.subagents is None:
            return {}
        found = _matching(self._folder, self._rules.subagents)
        return {os.path.relpath(path, self._folder): path for path in found}

    def _read(self, line: JsonLine, at_byte: int, now: float, *, is_main: bool) -> Iterator[Fact]:
        yield from self._meter.take(line, TRANSCRIPT)
        if not self._ends_with_turn or not is_main:
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


def _ending(
    rule: CompletionRule, record: Json, at_byte: int
) -> tuple[CompletionProven | ResultRead, ...]:
    proven = completion(rule, record, "transcript", at_byte)
    text = text_at(record, rule.text)
    return (proven,) if text is None else (ResultRead(text, proven.is_error), proven)
