"""What Slurm's programs print, and which of its settings are refused."""

from __future__ import annotations

import pytest

from holdfast.errors import Refused
from holdfast.fleet.slurm.placer import grace_of, refuse_settings
from holdfast.fleet.slurm.words import SlurmConfig, batch_script, read_job, seconds_left

LINE = (
    "JobId=7 JobName=hf-x UserId=root(0) JobState={state} Reason={reason} Dependency=(null)"
    " ExitCode={code} StartTime=2026-11-18T04:56:23 EndTime=Unknown NodeList={node}"
    " BatchHost={node} NumNodes=1 Comment={comment} WorkDir=/tmp StdErr=/dev/null Power="
)
CONFIG = """\
Configuration data as of 2026-11-18T04:56:41
ClusterName             = hft
KillWait                = 30 sec
ProctrackType           = {proctrack}
SLURM_VERSION           = 22.05.8
"""


def job(state, reason="None", code="0:0", node="(null)", comment="(null)"):
    fields = {"state": state, "reason": reason, "code": code, "node": node, "comment": comment}
    return read_job(LINE.format(**fields))


def test_a_held_job_waits_and_a_running_one_can_be_reached():
    held = job("PENDING", "JobHeldUser")
    assert (held.name, held.is_held, held.is_waiting, held.is_reachable) == (
        *("hf-x", True, True),
        False,
    )
    assert held.view().quoted() == "Slurm says PENDING (JobHeldUser)"
    running = job("RUNNING", node="c1")
    assert (running.is_waiting, running.is_reachable, running.view().is_gone) == (
        False,
        True,
        False,
    )


def test_a_job_that_ended_without_a_node_never_began():
    assert job("CANCELLED").view().never_began
    assert not job("CANCELLED", node="c1").view().never_began
    assert not job("PENDING").view().never_began


def test_only_the_attendants_own_comment_is_a_refusal():
    refused = job("FAILED", "NonZeroExitCode", "96:0", "c1", "holdfast: a is already running there")
    assert refused.refusal == "a is already running there"
    assert refused.view().quoted() == "Slurm says FAILED (exit 96) on c1"
    assert job("FAILED", node="c1", comment="of a user").refusal is None


def test_a_grace_longer_than_kill_wait_and_another_proctrack_are_refused():
    config = SlurmConfig.read(CONFIG.format(proctrack="proctrack/cgroup"))
    refuse_settings(config, 25.0)
    with pytest.raises(Refused, match="KillWait"):
        refuse_settings(config, 25.5)
    linux = SlurmConfig.read(CONFIG.format(proctrack="proctrack/linuxproc"))
    with pytest.raises(Refused, match="proctrack/linuxproc"):
        refuse_settings(linux, 1.0)
    with pytest.raises(Refused, match="KillWait"):  # nothing is known of it
        refuse_settings(config.replace(kill_wait_seconds=None), 0.0)


def test_the_grace_is_that_of_the_request_or_the_default():
    assert grace_of({"options": {"grace": "1m"}}) == 60.0
    assert grace_of({}) == 10.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("2:00", 120.0), ("1:00:00", 3600.0), ("UNLIMITED", None)],
)
def test_the_time_that_is_left(text, seconds):
    assert seconds_left(text) == seconds


def test_no_request_can_end_the_script_early():
    script = batch_script("holdfast", "/a b", {"argv": ["x\nHOLDFAST\nrm", "$(id)`id`"]}).decode()
    lines = script.splitlines()
    assert lines[1].startswith("exec env HOLDFAST_HOME='/a b' holdfast fleet attend <<'HOLDFAST'")
    assert (lines.index("HOLDFAST"), len(lines)) == (3, 4)
