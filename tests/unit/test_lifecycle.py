from __future__ import annotations

import itertools

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.run.event_log import LoggedEvent
from holdfast.run.events import KINDS, Ignored, Kind, check_facts
from holdfast.run.facts import AttemptFacts, ExitFacts, Phase, ProcessFacts, State
from holdfast.run.lifecycle import EventFold, cell_of, fold
from holdfast.run.outcomes import EndedBy, Outcome, StopCause, decide_outcome, run_exit_code


def a_process(pid: int) -> ProcessIdentity:
    return ProcessIdentity(
        pid, 100 + pid, 7000 + pid, 4026531836, "0123456789abcdef" * 2, "0a0b0c0d"
    )


SHIM = a_process(10).to_json()


def events(*steps: tuple[Kind, dict]) -> list[LoggedEvent]:
    return [
        LoggedEvent(number, f"2026-11-15T18:00:{number:02}Z", float(number), kind, facts)
        for number, (kind, facts) in enumerate(steps, 1)
    ]


def supervised(**facts) -> tuple[Kind, dict]:
    return Kind.SUPERVISED, {"shim": SHIM, "how": "launched", **facts}


def started(attempt: int = 1) -> tuple[Kind, dict]:
    return Kind.ATTEMPT_STARTED, {"attempt": attempt, "root": a_process(10 + attempt).to_json()}


def exited(code: int | None = 0, signal: int | None = None, **facts) -> tuple[Kind, dict]:
    return Kind.ROOT_EXITED, {"attempt": 1, "exit_code": code, "signal": signal, **facts}


def ended(outcome: Outcome = Outcome.SUCCEEDED, **facts) -> tuple[Kind, dict]:
    return Kind.ENDED, {"outcome": outcome.value, **facts}


RUNNING = (Kind.RUNNING, {"attempt": 1, "log_bytes": 7})


@pytest.mark.parametrize(("phase", "kind"), list(itertools.product(Phase, Kind)))
def test_every_cell_of_the_table_is_decided(phase: Phase, kind: Kind):
    cell = cell_of(phase, kind)
    assert isinstance(cell, Phase) or cell.why


def test_the_table_has_no_other_cells():
    assert set(KINDS) == set(Kind)
    assert {len(rule.cells) for rule in KINDS.values()} == {len(Phase)}


@pytest.mark.parametrize("kind", Kind)
def test_nothing_leads_out_of_ended(kind: Kind):
    cell = cell_of(Phase.ENDED, kind)
    stays = kind in (Kind.CLEANED, Kind.FAULT)
    assert cell is Phase.ENDED if stays else isinstance(cell, Ignored)


def test_only_ended_ends_a_run():
    enders = {kind for kind, rule in KINDS.items() if Phase.ENDED in rule.cells}
    assert enders == {Kind.ENDED, Kind.CLEANED, Kind.FAULT}
    assert cell_of(Phase.RUNNING, Kind.CLEANED) is Phase.RUNNING


def test_every_phase_is_a_state():
    assert {phase.value for phase in Phase} < {state.value for state in State}


def test_the_life_of_a_plain_run():
    facts = fold(events(supervised(), started(), RUNNING))
    assert (facts.phase, facts.attempt.number) == (Phase.RUNNING, 1)
    assert facts.attempt.root == facts.attempt.first_root == a_process(11)
    assert (facts.attempt.log_start_byte, facts.attempt.is_exec_confirmed) == (7, True)
    facts = fold(events(supervised(), started(), RUNNING, exited(3), ended(Outcome.FAILED)))
    assert (facts.phase, facts.outcome, facts.has_ended) == (Phase.ENDED, Outcome.FAILED, True)
    (attempt,) = facts.attempts
    assert (attempt.exit_code, attempt.outcome, attempt.ended_at) == (
        3,
        Outcome.FAILED,
        "2026-11-15T18:00:04Z",
    )
    assert (facts.started_at, facts.ended_at) == ("2026-11-15T18:00:02Z", "2026-11-15T18:00:04Z")


def test_a_late_write_never_resurrects_an_ended_run():
    ending = [supervised(), started(), RUNNING, exited(), ended()]
    late = [supervised(how="adopted"), started(2), RUNNING, ended(Outcome.LOST)]
    before, after = fold(events(*ending)), fold(events(*ending, *late))
    assert after.last_seq == before.last_seq + len(late)
    assert after.replace(last_seq=before.last_seq) == before


def test_cleaning_up_after_the_end_is_kept():
    facts = fold(events(supervised(), ended(), (Kind.CLEANED, {"complete": True})))
    assert facts.cleanup == {"complete": True}
    assert facts.has_ended


def test_L1_a_command_that_cannot_be_executed_never_started():
    failed = (Kind.EXEC_FAILED, {"attempt": 1, "exit_code": 127, "error": "not found"})
    facts = fold(events(supervised(), started(), failed, ended(Outcome.NEVER_STARTED)))
    assert facts.started_at is None
    assert facts.attempt.exec_failure is not None
    assert (facts.attempts[0].exit_code, facts.attempts[0].outcome) == (127, Outcome.NEVER_STARTED)


def test_a_restart_begins_anew_and_keeps_what_was():
    log = events(
        supervised(),
        started(),
        RUNNING,
        exited(1),
        (Kind.STOP_BEGUN, {"cause": "leftovers"}),
        (Kind.RESTART_SCHEDULED, {"attempt": 2, "delay_seconds": 1}),
    )
    so_far = EventFold(log)
    facts = so_far.facts
    assert (facts.phase, facts.attempt.restart) == (Phase.STARTING, log[-1].facts)
    so_far.apply(LoggedEvent(7, "later", 7.0, *started(2)))
    facts = so_far.facts
    assert facts.attempt == AttemptFacts(
        number=2,
        started_at="later",
        first_root=a_process(12),
        root=a_process(12),
        log_start_byte=7,  # until its own is known
    )
    assert facts.stop_cause is None
    assert [attempt.outcome for attempt in facts.attempts] == [Outcome.FAILED, None]
    assert facts.started_at == log[1].at


def test_the_first_cause_of_a_stop_stands():
    causes = [(Kind.STOP_BEGUN, {"cause": cause}) for cause in ("leftovers", "idle", "user")]
    facts = fold(events(supervised(), started(), RUNNING, *causes))
    assert (facts.stop_cause, facts.stop) == (StopCause.IDLE, {"cause": "idle"})
    assert facts.phase is Phase.STOPPING


def test_D1_an_adopter_takes_over_and_the_old_shim_is_remembered():
    new = supervised(shim=a_process(20).to_json(), how="adopted")
    facts = fold(events(supervised(), started(), RUNNING, new))
    assert (facts.shim, facts.previous_shims) == (a_process(20), (a_process(10),))
    assert facts.adopted
    assert facts.phase is Phase.RUNNING


def test_an_adopter_of_a_stopping_run_goes_on_stopping():
    stop = (Kind.STOP_BEGUN, {"cause": "user"})
    facts = fold(events(supervised(), started(), stop, supervised(how="adopted"), RUNNING))
    assert facts.phase is Phase.STOPPING


def test_members_add_up_and_snapshots_stay_as_they_were():
    so_far = EventFold(events((Kind.MEMBERS_SEEN, {"members": [{"token": "a", "comm": "sh"}]})))
    before = so_far.facts
    so_far.apply(
        LoggedEvent(2, "t", 2.0, Kind.MEMBERS_SEEN, {"members": [{"token": "b"}, {"x": 1}]})
    )
    assert before.members == {"a": "sh"}
    assert so_far.facts.members == {"a": "sh", "b": None}


def test_the_exit_of_a_workload_is_not_that_of_the_next_one():
    def resolved(pid: int) -> tuple[Kind, dict[str, object]]:
        workload = a_process(pid).to_json()
        return Kind.WORKLOAD_RESOLVED, {"resolution": "resolved", "workload": workload}

    first, exited = resolved(1), (Kind.WORKLOAD_EXITED, {"exit_code": 0, "how": "pidfd"})
    seen = ExitFacts(0, None, None, "pidfd")
    assert fold(events(first, exited, first)).attempt.workload_exit == seen
    assert fold(events(first, exited, resolved(2))).attempt.workload_exit is None


def test_an_heir_is_the_root_and_lives():
    left = exited(0, heir=a_process(12).to_json())
    facts = fold(events(started(), left))
    assert (facts.attempt.root, facts.attempt.root_exit) == (a_process(12), None)
    assert facts.attempt.first_root == a_process(11)
    assert facts.attempts[0].ended_at is None
    facts = fold(events(started(), left, exited(3, how="waitid")))
    assert facts.attempt.root_exit == ExitFacts(3, None, None, "waitid")
    assert facts.attempts[0].exit_code == 3


def test_an_exec_changes_the_name_and_not_the_identity():
    resolved = {
        "resolution": "resolved",
        "workload": {**a_process(1).to_json(), "comm": "sh"},
        "wrappers": [{**a_process(2).to_json(), "comm": "script"}],
    }
    execed = {"token": a_process(1).token, "comm": "python3", "exe": "/usr/bin/python3"}
    facts = fold(
        events(
            (Kind.WORKLOAD_RESOLVED, resolved),
            (Kind.EXECED, execed),
        )
    )
    assert facts.attempt.workload == ProcessFacts(a_process(1), "python3", "/usr/bin/python3")
    assert facts.attempt.wrappers == (ProcessFacts(a_process(2), "script"),)


def test_what_is_counted_and_kept():
    facts = fold(
        events(
            (Kind.ANOMALY_FIRED, {"rule": "a"}),
            (Kind.ANOMALY_FIRED, {"rule": "b"}),
            (Kind.FAULT, {"where": "sampler"}),
            (Kind.USAGE_READ, {"tokens_in": 1}),
            (Kind.USAGE_READ, {"tokens_in": 5, "cost_usd": 0.1}),
            (Kind.OUTPUT_TRUNCATED, {"was": 9, "now": 0}),
            (Kind.OUTPUT_TRIMMED, {"first_byte": 4096}),
            (Kind.SESSION_FOUND, {"id": "s"}),
            (Kind.COMPLETION_PROVEN, {"source": "stdout"}),
            (Kind.RESULT_READ, {"text": "done"}),
            (Kind.LIMIT_HIT, {"retry_at": "soon"}),
            (Kind.WORKLOAD_EXITED, {"exit_code": 1}),
        )
    )
    assert (facts.anomaly_count, len(facts.faults), facts.output_first_byte) == (2, 1, 4096)
    assert facts.usage == {"tokens_in": 5, "cost_usd": 0.1}
    assert (facts.session, facts.attempt.result) == ({"id": "s"}, {"text": "done"})
    assert facts.attempt.completion is not None
    assert facts.attempt.limit is not None
    assert facts.attempt.workload_exit is not None
    assert facts.output_truncations == ({"was": 9, "now": 0},)
    assert facts.last_seq == 12


def test_an_ending_nobody_saw_has_no_made_up_time():
    facts = fold(events(supervised(), started(), ended(Outcome.LOST, ended_at=None)))
    assert facts.ended_at is None
    assert facts.has_ended


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (Kind.SUPERVISED, {}),
        (Kind.SUPERVISED, {"shim": {"pid": 10}}),
        (Kind.SUPERVISED, {"shim": SHIM, "previous_shim": {}}),
        (Kind.ATTEMPT_STARTED, {"attempt": "1", "root": SHIM}),
        (Kind.ATTEMPT_STARTED, {"attempt": True, "root": SHIM}),
        (Kind.ATTEMPT_STARTED, {"attempt": 1, "root": {**SHIM, "token": "hf1.10"}}),
        (Kind.WORKLOAD_RESOLVED, {"workload": 1}),
        (Kind.WORKLOAD_RESOLVED, {"workload": {"comm": "sh"}}),
        (Kind.WORKLOAD_RESOLVED, {"workload": None, "wrappers": [1]}),
        (Kind.ROOT_EXITED, {"exit_code": 0, "heir": {"pid": 12}}),
        (Kind.STOP_BEGUN, {"cause": "mood"}),
        (Kind.ENDED, {"outcome": "fine"}),
        (Kind.ENDED, {"outcome": ["failed"]}),
        (Kind.MEMBERS_SEEN, {"members": ["a"]}),
        (Kind.OUTPUT_TRIMMED, {"first_byte": -1}),
    ],
)
def test_an_event_that_lacks_its_point_is_no_event(kind: Kind, facts: dict):
    with pytest.raises(ValueError, match=kind.value):
        check_facts(kind, facts)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"seq": 1, "at": "t", "boottime": 1.0},
        {"seq": 1, "at": "t", "boottime": 1.0, "kind": "resurrected"},
        {"seq": "1", "at": "t", "boottime": 1.0, "kind": "fault"},
        {"seq": True, "at": "t", "boottime": 1.0, "kind": "fault"},
        {"seq": 1, "at": "t", "boottime": "now", "kind": "fault"},
        {"seq": 1, "at": "t", "boottime": 1.0, "kind": {}},
    ],
)
def test_what_is_not_an_event_is_refused(document: object):
    with pytest.raises(ValueError, match=r".+"):
        LoggedEvent.from_json(document)


def test_an_event_survives_its_line():
    (event,) = events(supervised())
    assert LoggedEvent.from_json(event.to_json()) == event


CAUSES = {
    StopCause.USER: Outcome.STOPPED,
    StopCause.SHIM_SIGNALLED: Outcome.STOPPED,
    StopCause.OUTER: Outcome.STOPPED,
    StopCause.REPLACED: Outcome.STOPPED,
    StopCause.TIMEOUT: Outcome.TIMED_OUT,
    StopCause.IDLE: Outcome.STALLED,
    StopCause.SILENCE: Outcome.STALLED,
    StopCause.MEMORY: Outcome.OUT_OF_MEMORY,
    StopCause.TOKENS: Outcome.OVER_BUDGET,
    StopCause.COST: Outcome.OVER_BUDGET,
    StopCause.COMPLETION: Outcome.COMPLETED,
    StopCause.REQUIRE_WORKLOAD: Outcome.FAILED,
    StopCause.LEFTOVERS: Outcome.SUCCEEDED,
}


@pytest.mark.parametrize("cause", StopCause)
def test_the_cause_of_a_stop_decides_the_outcome(cause: StopCause):
    assert cause in CAUSES, f"CAUSES of this file needs the outcome of {cause}"
    ending = decide_outcome(stop_cause=cause, exit_code=0)
    assert ending.outcome is CAUSES[cause]
    by = EndedBy.ITSELF if cause is StopCause.LEFTOVERS else EndedBy.HOLDFAST
    assert (ending.exit_code, ending.ended_by) == (0, by)


@pytest.mark.parametrize(
    ("given", "outcome", "by"),
    [
        ({"exit_code": 0}, Outcome.SUCCEEDED, EndedBy.ITSELF),
        ({"exit_code": 3}, Outcome.FAILED, EndedBy.ITSELF),
        ({"exit_code": 0, "is_error": True}, Outcome.FAILED, EndedBy.ITSELF),
        ({"signal": 9}, Outcome.KILLED, EndedBy.OUTSIDE),
        ({"signal": 11}, Outcome.KILLED, EndedBy.ITSELF),
        ({"signal": 13}, Outcome.KILLED, EndedBy.ITSELF),
        ({"signal": 15}, Outcome.KILLED, EndedBy.OUTSIDE),
        ({"signal": 15, "signalled_by_us": True}, Outcome.STOPPED, EndedBy.HOLDFAST),
        ({"signal": 9, "oom_killed": True}, Outcome.OUT_OF_MEMORY, EndedBy.OUTSIDE),
        ({"exit_code": 137, "oom_killed": True}, Outcome.OUT_OF_MEMORY, EndedBy.OUTSIDE),
        ({"exit_code": 0, "oom_killed": True}, Outcome.SUCCEEDED, EndedBy.ITSELF),
        ({}, Outcome.LOST, EndedBy.UNKNOWN),
        ({"exec_failed": True, "exit_code": 127}, Outcome.NEVER_STARTED, EndedBy.ITSELF),
        ({"stop_cause": StopCause.USER, "signal": 15}, Outcome.STOPPED, EndedBy.HOLDFAST),
        ({"stop_cause": StopCause.USER}, Outcome.STOPPED, EndedBy.HOLDFAST),
        ({"stop_cause": StopCause.LEFTOVERS, "signal": 9}, Outcome.KILLED, EndedBy.OUTSIDE),
        (
            {"stop_cause": StopCause.COMPLETION, "signal": 15, "is_error": True},
            Outcome.FAILED,
            EndedBy.HOLDFAST,
        ),
        (
            {"stop_cause": StopCause.USER, "signal": 9, "oom_killed": True},
            Outcome.STOPPED,
            EndedBy.HOLDFAST,
        ),
    ],
)
def test_L9_endings_are_told_apart(given: dict, outcome: Outcome, by: EndedBy):
    ending = decide_outcome(**given)
    assert (ending.outcome, ending.ended_by) == (outcome, by)
    assert (ending.exit_code, ending.signal) == (given.get("exit_code"), given.get("signal"))


@pytest.mark.parametrize(
    ("outcome", "exit_code", "signal", "code"),
    [
        (Outcome.SUCCEEDED, 0, None, 0),
        (Outcome.COMPLETED, None, 9, 0),
        (Outcome.FAILED, 7, None, 7),
        (Outcome.FAILED, 0, None, 1),
        (Outcome.FAILED, None, 15, 1),
        (Outcome.STOPPED, 0, None, 0),
        (Outcome.STOPPED, 5, None, 5),
        (Outcome.STOPPED, None, 15, 143),
        (Outcome.STOPPED, None, None, 125),
        (Outcome.TIMED_OUT, 0, None, 124),
        (Outcome.STALLED, None, 9, 124),
        (Outcome.KILLED, None, 9, 137),
        (Outcome.OUT_OF_MEMORY, None, 9, 137),
        (Outcome.OUT_OF_MEMORY, 0, None, 125),
        (Outcome.NEVER_STARTED, 126, None, 126),
        (Outcome.NEVER_STARTED, 127, None, 127),
        (Outcome.NEVER_STARTED, 125, None, 125),
        (Outcome.NEVER_STARTED, None, None, 125),
        (Outcome.LOST, None, None, 125),
        (Outcome.LOST, 0, None, 125),
    ],
)
def test_the_exit_code_of_wait(
    outcome: Outcome, exit_code: int | None, signal: int | None, code: int
):
    assert run_exit_code(outcome, exit_code, signal) == code


def test_a_missing_required_workload_is_holdfasts_own_failure():
    assert run_exit_code(Outcome.FAILED, None, 15, StopCause.REQUIRE_WORKLOAD) == 125


def test_a_log_that_was_cut_begins_at_its_first_byte_again():
    trimmed = (Kind.OUTPUT_TRIMMED, {"first_byte": 4096})
    cut = (Kind.OUTPUT_TRUNCATED, {"was": 9000, "now": 0})
    assert fold(events(supervised(), started(), RUNNING, trimmed)).output_first_byte == 4096
    assert fold(events(supervised(), started(), RUNNING, trimmed, cut)).output_first_byte == 0


def test_what_is_missing_is_what_was_said_last():
    lost = (Kind.WATCHING, {"degraded": ["inotify"], "why": "inotify: none is left"})
    found = (Kind.WATCHING, {"degraded": [], "why": "inotify works again"})
    facts = fold(events(supervised(), started(), RUNNING, lost))
    assert (facts.degraded, facts.degraded_why) == (("inotify",), "inotify: none is left")
    facts = fold(events(supervised(), started(), RUNNING, lost, found))
    assert (facts.degraded, facts.degraded_why) == ((), None)


def test_a_run_is_over_when_its_root_is_however_long_we_read_on():
    facts = fold(events(supervised(), started(), RUNNING, exited(0)))
    over = facts.attempt.over_at
    later = fold(events(supervised(), started(), RUNNING, exited(0), ended(Outcome.SUCCEEDED)))
    assert later.ended_at == over is not None


def test_a_run_that_waited_for_its_next_attempt_ended_while_it_waited():
    scheduled = (Kind.RESTART_SCHEDULED, {"attempt": 2, "delay_seconds": 60})
    log = events(supervised(), started(), RUNNING, exited(1), scheduled, ended(Outcome.STOPPED))
    facts = fold(log)
    assert (facts.ended_at, facts.ended_boottime) == (log[-1].at, log[-1].boottime)
    assert facts.attempts[0].ended_at == log[3].at


def test_each_attempt_keeps_its_own_data():
    resolved = {"resolution": "resolved", "workload": {**a_process(30).to_json(), "comm": "claude"}}
    facts = fold(
        events(
            supervised(),
            started(),
            RUNNING,
            (Kind.WORKLOAD_RESOLVED, resolved),
            (Kind.COMPLETION_PROVEN, {"is_error": True}),
            exited(0),
            (Kind.RESTART_SCHEDULED, {"attempt": 2}),
            started(2),
        )
    )
    first, second = facts.attempts
    assert (first.workload, first.outcome) == (
        ProcessFacts(a_process(30), "claude"),
        Outcome.FAILED,
    )
    assert (second.workload, second.completion, second.root) == (None, None, a_process(12))
    assert facts.named_tree() == {
        a_process(11).token: None,
        a_process(12).token: None,
        a_process(30).token: "claude",
    }


def test_the_public_form_of_an_attempt():
    facts = fold(events(supervised(), started(), RUNNING, exited(3), ended(Outcome.FAILED)))
    assert facts.attempt.to_json() == {
        "attempt": 1,
        "root": a_process(11).to_json(),
        "started_at": "2026-11-15T18:00:02Z",
        "ended_at": "2026-11-15T18:00:04Z",
        "exit_code": 3,
        "signal": None,
        "outcome": "failed",
        "command": None,
        "limit": None,
    }


def test_a_wait_for_a_quota_is_over_when_the_next_attempt_begins():
    wait = {"until": None, "at": "2026-11-15T19:00:00Z", "session": "s"}
    scheduled = (Kind.RESTART_SCHEDULED, {"attempt": 2, "delay_seconds": 1.0, "limit": wait})
    first = (supervised(), started(), RUNNING, exited(1))
    facts = fold(events(*first, scheduled))
    assert (facts.phase, facts.limit_wait, facts.quota_waits) == ("starting", wait, (wait,))
    stopped = (Kind.STOP_BEGUN, {"cause": StopCause.USER})
    assert fold(events(*first, scheduled, stopped)).limit_wait is None
    kind, more = started(2)
    facts = fold(events(*first, scheduled, (kind, {**more, "command": ["claude", "--resume"]})))
    assert (facts.limit_wait, facts.quota_waits) == (None, (wait,))
    assert facts.attempt.to_json()["command"] == ["claude", "--resume"]
    assert facts.earlier_attempts[0].command is None


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_declared_whole(kind: Kind):
    rule = KINDS[kind]
    assert len(rule.cells) == len(Phase)
    assert 0 <= rule.leaves_bytes <= 32 * 1024
