"""What Slurm's programs print, and which of its settings are refused."""

from __future__ import annotations

import json
import os
import pwd
import subprocess

import pytest

from holdfast.errors import Refused
from holdfast.fleet.slurm.harmful import refuse_settings
from holdfast.fleet.slurm.limits import grace_of
from holdfast.fleet.slurm.words import (
    SlurmConfig,
    batch_script,
    read_job,
    read_jobs,
    seconds_left,
)

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


def test_many_jobs_are_read_at_once():
    text = (
        "7 PENDING n/a hf-x (null)\n8 COMPLETED c1 hf-y \n"
        "9 FAILED c1 hf-z holdfast: a is already running there\n"
    )
    waiting, over, refused = (one.view() for one in read_jobs(text).values())
    assert (waiting.is_waiting, waiting.is_gone, waiting.node) == (True, False, None)
    assert (over.is_gone, over.node, over.refusal) == (True, "c1", None)
    assert refused.refusal == "a is already running there"
    assert list(read_jobs(text)) == ["7", "8", "9"]


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


def test_no_request_can_end_the_script_early(tmp_path):
    asked = {"argv": ["x\nHOLDFAST\nrm", "$(id)`id`'"]}
    shown = play(batch_script(shows(tmp_path), "/a b", asked))
    home, words, request = shown.splitlines()[-3:]
    assert (home, words, json.loads(request)) == ("/a b", "fleet attend", asked)


def test_the_batch_process_begins_as_in_a_login(tmp_path):
    """Whatever is left of the submitter's environment; also if a login script reads its stdin."""
    who = pwd.getpwuid(os.geteuid())
    see = tmp_path / "see"
    see.write_text("#!/bin/sh\nenv; cat\n")
    see.chmod(0o755)
    shown = play(batch_script(str(see), "", {"id": "x"})).splitlines()
    assert {f"HOME={who.pw_dir}", f"USER={who.pw_name}", f"LOGNAME={who.pw_name}"} <= set(shown)
    assert shown[-1] == '{"id":"x"}'


def shows(folder):
    """A holdfast that prints its home, its words and its stdin."""
    program = folder / "holdfast"
    program.write_text('#!/bin/sh\necho "$HOLDFAST_HOME"; echo "$@"; cat\n')
    program.chmod(0o755)
    return str(program)


def play(script):
    """As slurmstepd does: with hardly an environment."""
    done = subprocess.run(
        ["sh"], input=script, capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return done.stdout.decode()
