from __future__ import annotations

from typing import Any

import pytest

from holdfast.options import Wanted
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.run import conclusion
from holdfast.run.conclusion import conclude
from holdfast.run.facts import (
    NOT_SEEN,
    AttemptEnd,
    AttemptFacts,
    ExitFacts,
    ProcessFacts,
    RunFacts,
)
from holdfast.run.names import new_id
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
from holdfast.run.spec import RunSpec

BOOT = "0123456789abcdef" * 2
SHIM, ROOT, WORKLOAD = (ProcessIdentity(pid, 5, 7, boot_id=BOOT) for pid in (10, 11, 12))
EXITED = ExitFacts(3, None, False, "waitid")
GONE = Look(Verdict.GONE, Proof.NO_SUCH_PID, "no process 11")

SPEC = RunSpec(
    id=new_id(),
    name="a",
    host="0123abcd",
    command=("claude",),
    cwd="/",
    env={},
    agent="claude",
    tags={},
    key=None,
    pty=False,
    wanted=Wanted(),
    created_at="2026-11-15T18:00:00Z",
    launcher={},
)


def exit_of(code: int | None = None, signal: int | None = None) -> ExitFacts:
    return ExitFacts(code, signal, False, "waitid")


def ran(**facts) -> RunFacts:
    """One attempt that ran, with a workload below its root."""
    known: dict[str, Any] = {
        "number": 1,
        "root": ROOT,
        "workload": ProcessFacts(WORKLOAD, "claude"),
    }
    known |= {"is_exec_confirmed": True, **facts}
    of_run: dict[str, Any] = {n: known.pop(n) for n in RunFacts._fields if n in known}
    return RunFacts(**{"shim": SHIM, "attempt": AttemptFacts(**known), **of_run})


def test_the_exit_is_that_of_the_root():
    end = AttemptEnd(exit_of(3), exit_of(signal=9))
    ended = conclude(SPEC, ran(), end)
    assert (ended.outcome, ended.exit_code, ended.signal) == (Outcome.FAILED, 3, None)
    assert ended.workload_exit_code is None
    assert ended.evidence == "root exited 3 (seen by waitid)"


def test_the_exit_is_that_of_a_workload_that_outlived_the_root():
    end = AttemptEnd(exit_of(3), exit_of(0), workload_outlived_root=True)
    ended = conclude(SPEC, ran(), end)
    assert (ended.outcome, ended.exit_code, ended.workload_exit_code) == (Outcome.SUCCEEDED, 0, 0)
    assert ended.evidence == "workload exited 0 (seen by waitid)"


def test_a_workload_that_is_the_root_has_its_exit():
    ended = conclude(SPEC, ran(workload=ProcessFacts(ROOT)), AttemptEnd(exit_of(3)))
    assert ended.workload_exit_code == 3


@pytest.mark.parametrize("loss", Loss)
def test_what_was_not_seen_is_lost_for_its_reason_and_has_no_code(loss):
    ended = conclude(SPEC, ran(), AttemptEnd(NOT_SEEN), loss=loss, vouched=True)
    assert (ended.outcome, ended.exit_code, ended.signal) == (Outcome.LOST, None, None)
    assert (ended.loss, ended.ended_by, ended.vouched) == (loss, EndedBy.UNKNOWN, True)


def test_a_loss_is_no_fact_of_an_ending_that_was_seen():
    assert conclude(SPEC, ran(), AttemptEnd(exit_of(0)), loss=Loss.REBOOT).loss is None


def test_a_command_that_cannot_be_executed_never_started():
    end = AttemptEnd(exit_of(127), failure_code=127)
    ended = conclude(SPEC, ran(), end, evidence=("x: no such file",))
    assert (ended.outcome, ended.exit_code) == (Outcome.NEVER_STARTED, 127)
    assert ended.evidence == "x: no such file", "an exit of our own child is not the command's"


def test_a_later_attempt_that_cannot_be_executed_fails_a_run_that_did_start():
    end = AttemptEnd(exit_of(127), failure_code=127)
    assert conclude(SPEC, ran(number=2), end).outcome is Outcome.FAILED


def test_the_first_cause_of_a_stop_decides():
    end = AttemptEnd(exit_of(signal=15))
    ended = conclude(SPEC, ran(), end, stop_cause=StopCause.TIMEOUT)
    assert (ended.outcome, ended.stop_reason) == (Outcome.TIMED_OUT, StopCause.TIMEOUT)


@pytest.mark.parametrize(("ours", "outcome"), [(True, Outcome.STOPPED), (False, Outcome.KILLED)])
def test_a_signal_without_a_stop_is_told_by_its_sender(ours, outcome):
    end = AttemptEnd(exit_of(signal=10))
    assert conclude(SPEC, ran(), end, signalled_by_us=ours).outcome is outcome


def test_a_required_workload_that_never_came_is_a_failure():
    spec = SPEC.replace(wanted=Wanted(require_workload=True))
    ended = conclude(spec, ran(workload=None), AttemptEnd(exit_of(0)))
    assert (ended.outcome, ended.stop_reason) == (Outcome.FAILED, StopCause.REQUIRE_WORKLOAD)
    assert "no workload claude was ever seen below root 11" in ended.evidence
    assert conclude(spec, ran(), AttemptEnd(exit_of(0))).outcome is Outcome.SUCCEEDED
    killed = conclude(spec, ran(workload=None), AttemptEnd(exit_of(signal=9)))
    assert killed.outcome is Outcome.KILLED


@pytest.mark.parametrize(
    ("look", "loss"),
    [
        (None, Loss.UNSEEN),
        (GONE, Loss.UNSEEN),
        (Look(Verdict.GONE, Proof.BOOT, ""), Loss.REBOOT),
        (Look(Verdict.RECYCLED, Proof.INODE, ""), Loss.RECYCLED),
    ],
)
def test_a_loss_follows_from_the_look(look, loss):
    assert conclusion.loss_of(look) is loss


# --- a run that was for a time without a shim


def test_an_end_that_is_recorded_is_not_looked_for():
    assert conclusion.root_without_exit(ran()) == ROOT
    assert conclusion.root_without_exit(ran(root_exit=EXITED)) is None
    assert conclusion.root_without_exit(ran(exec_failure={"exit_code": 127})) is None
    assert conclusion.workload_without_exit(ran()) == WORKLOAD
    assert conclusion.workload_without_exit(ran(workload_exit=EXITED)) is None
    assert conclusion.workload_without_exit(ran(workload=ProcessFacts(ROOT))) is None, (
        "it is the root"
    )


def test_a_recorded_exit_stands():
    end = conclusion.end_unwatched(
        ran(root_exit=EXITED), root_is_unseen=False, workload_is_found=False
    )
    assert end.own_exit == exit_of(3)


def test_a_root_that_ended_unseen_has_no_exit():
    end = conclusion.end_unwatched(ran(), root_is_unseen=True, workload_is_found=False)
    assert end.own_exit == NOT_SEEN


def test_a_root_that_ended_unseen_leaves_the_code_to_the_workload_that_is_there():
    end = conclusion.end_unwatched(ran(), root_is_unseen=True, workload_is_found=True)
    assert (end.workload_outlives_root, end.workload_outlived_root) == (True, True)
    assert end.own_exit is None, "it is not known yet"


@pytest.mark.parametrize("outlives", [True, False])
def test_a_workload_outlived_a_recorded_root_if_it_was_meant_to(outlives):
    facts = ran(root_exit=EXITED, workload_outlives_root=outlives)
    end = conclusion.end_unwatched(facts, root_is_unseen=False, workload_is_found=True)
    assert end.workload_outlived_root is outlives


def test_an_outliving_workload_that_ended_unseen_has_no_exit():
    facts = ran(root_exit=EXITED, workload_outlives_root=True, workload_outlived_root=True)
    end = conclusion.end_unwatched(facts, root_is_unseen=False, workload_is_found=False)
    assert end.own_exit is None
    assert conclude(SPEC, facts, end).outcome is Outcome.LOST


def test_a_child_that_was_never_let_go_never_started():
    end = conclusion.end_before_exec(ran(workload=None), exit_of(0))
    ended = conclude(SPEC, ran(workload=None), end)
    assert (ended.outcome, ended.exit_code) == (Outcome.NEVER_STARTED, 125)
    assert ended.evidence == conclusion.NEVER_LET_GO


def test_a_later_child_that_was_never_let_go_ends_the_run_as_the_attempt_before():
    before = AttemptFacts(number=1, root_exit=exit_of(7))
    facts = ran(number=2, earlier_attempts=(before,))
    ended = conclude(SPEC, facts, conclusion.end_before_exec(facts, exit_of(0)))
    assert (ended.outcome, ended.exit_code) == (Outcome.FAILED, 7)
    assert ended.evidence.startswith(f"attempt 2: {conclusion.NEVER_LET_GO}; root exited 7")


def test_a_run_without_a_child_never_started():
    ended = conclude(SPEC, RunFacts(), conclusion.end_without_command())
    assert (ended.outcome, ended.exit_code) == (Outcome.NEVER_STARTED, 125)


@pytest.mark.parametrize(
    ("facts", "is_due"),
    [
        ({}, True),
        ({"restart": None}, False),
        ({"stop_cause": StopCause.USER}, False),
        ({"shim": None}, False),
        ({"shim": SHIM.replace(boot_id="f" * 32)}, False),
    ],
)
def test_a_restart_is_due_in_the_boot_that_promised_it(facts, is_due):
    scheduled = ran(**{"restart": {"attempt": 2}, **facts})
    assert conclusion.is_restart_due(scheduled, BOOT) is is_due


# --- the sentences


def test_looks_are_told_once_for_each_process():
    looks = {
        SHIM.token: GONE,
        ROOT.token: Look(Verdict.SAME, Proof.INODE, ""),
        WORKLOAD.token: Look(Verdict.RECYCLED, Proof.INODE, "12 belongs to another process"),
    }
    assert conclusion.explain_looks(ran(), looks) == [
        "shim 10 GONE",
        "workload 12 RECYCLED: 12 belongs to another process",
        "root 11 SAME (pidfd inode)",
    ]
    assert conclusion.explain_looks(ran(workload=ProcessFacts(ROOT)), looks) == [
        "shim 10 GONE",
        "workload 11 SAME (pidfd inode)",
    ]


def takeover(**how) -> str:
    known = {"loss": Loss.UNSEEN, "last_seen_at": "18:00", "is_over": True}
    return conclusion.explain_takeover("shim 10 GONE", "", [GONE], **{**known, **how})


def test_a_takeover_says_what_was_found():
    assert takeover() == "shim 10 GONE; no process 11; last seen alive at 18:00"
    assert takeover(is_over=False) == "shim 10 GONE; no process 11"
    assert takeover(loss=Loss.REBOOT) == "lost to a reboot: last seen alive at 18:00"


# --- every process that a run names


def test_every_process_that_a_run_names():
    former, heir, wrapper, former_shim = (ProcessIdentity(pid, 5, 7) for pid in (1, 2, 3, 4))
    facts = ran(
        first_root=ROOT,
        root=heir,
        wrappers=(ProcessFacts(wrapper, "sh"),),
        earlier_attempts=(AttemptFacts(number=1, first_root=former, root=former),),
        previous_shims=(former_shim,),
        workloads=("first workload", WORKLOAD.token),
        members={"member": "node", wrapper.token: "bash"},
        cleanup={"survivors": [{"token": "survivor", "comm": "dd"}]},
    )
    assert facts.named_tree() == {
        former.token: None,
        ROOT.token: None,
        heir.token: None,
        "first workload": None,
        WORKLOAD.token: "claude",
        wrapper.token: "bash",
        "member": "node",
        "survivor": "dd",
    }
    assert facts.named_tokens() == {*facts.named_tree(), SHIM.token, former_shim.token}
