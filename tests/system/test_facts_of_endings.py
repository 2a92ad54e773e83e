"""What a program decides on is a field: `is_recorded`, `loss`, `vouched`, `stop_reason`.

`ls` and its hints follow from those fields, so they say what `status` says.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from holdfast.run.outcomes import Loss, StopCause
from tests.support import recovery_scenes
from tests.support.cli import CommandLine
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, Place, run_in
from tests.support.recovering import (
    OTHER_BOOT,
    kill,
    kill_shim,
    known,
    orphan,
    shim_is_dead,
    wait_gone,
)
from tests.support.running import run_of, settled

AFTER_REBOOT = Place(pid_namespace=False, covers={BOOT_ID: OTHER_BOOT})


def _listed(holdfast: CommandLine) -> tuple[str, str]:
    done = holdfast("ls", expect=0)
    return done.stdout, done.stderr


def _both_dead(holdfast: CommandLine) -> Any:
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    return before


def test_ls_says_RECYCLED_after_recover_as_status_does():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.listed_after_recycling)
    said = f"pid {facts['pid']} RECYCLED"
    for when in ("derived", "recorded", "later"):
        assert facts[when]["loss"] == "recycled", when
        assert said in facts[when]["ls"], when
    assert facts["derived"]["is_recorded"] is False
    assert "recover records the end of a" in facts["derived"]["hints"]
    assert facts["recorded"]["is_recorded"] is True
    assert facts["recorded"]["hints"] == ""
    assert facts["untouched"] is True


def test_ls_says_reboot_before_and_after_it_is_recorded(holdfast, tmp_path):
    needs("root")
    before = _both_dead(holdfast)
    home = str(tmp_path)
    looked = run_in(AFTER_REBOOT, recovery_scenes.listed_in, home=home, name="a")
    assert (looked["loss"], looked["is_recorded"]) == ("reboot", False)
    assert "reboot" in looked["ls"]
    run_in(AFTER_REBOOT, recovery_scenes.recover_in, home=home, words=[])
    final = known(before.id)
    assert (final.loss, final.is_recorded, final.vouched) == (Loss.REBOOT, True, False)
    table, hints = _listed(holdfast)
    assert "reboot" in table
    assert hints == ""


def test_a_run_that_nobody_watched_to_its_end_is_unseen(holdfast):
    before = _both_dead(holdfast)
    assert (known("a").loss, known("a").is_recorded) == (Loss.UNSEEN, False)
    holdfast("recover", expect=0)
    assert (known("a").loss, known("a").is_recorded) == (Loss.UNSEEN, True)
    assert f"pid {before.workload['pid']} GONE" in _listed(holdfast)[0]


def test_with_a_crash_note_the_hint_to_recover_is_still_given(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "launcher.name-written@launcher"}
    holdfast("run", "-n", "a", "true", env=crash)
    shim_is_dead("a")
    Path(run_of("a").directory.path, "crash.txt").write_text("Traceback\nRuntimeError: planted\n")
    info = known("a")
    assert (info.outcome, info.is_recorded) == ("never_started", False), info.evidence
    assert "planted" in info.evidence
    assert "recover records the end of a" in _listed(holdfast)[1]
    page = holdfast("status", "a", expect=0).stdout
    assert "holdfast recover" in page
    assert "holdfast rm" not in page


def test_the_users_word_is_a_field():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.vouched_for)
    assert (facts["outcome"], facts["vouched"], facts["is_recorded"]) == ("lost", True, True)


def test_why_a_run_was_stopped_is_a_field(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    assert known("a").stop_reason is None
    first = known("a").id
    holdfast("run", "-n", "a", "--replace", "--grace", "0", "sleep", "600", expect=0)
    assert known(first).stop_reason is StopCause.REPLACED
    os.kill(known("a").shim["pid"], signal.SIGTERM)
    settled("a")
    assert known("a").stop_reason is StopCause.SHIM_SIGNALLED
    holdfast("run", "-n", "b", "--timeout", "1s", "--grace", "0", "sleep", "600", expect=0)
    settled("b")
    assert known("b").stop_reason is StopCause.TIMEOUT
    table, _ = _listed(holdfast)
    assert "replaced" in table
    assert "the shim was sent SIGTERM" in table
    document = holdfast("status", "b", "--json", expect=0).json
    assert (document["stop_reason"], document["loss"], document["vouched"]) == (
        "timeout",
        None,
        False,
    )


def test_runs_that_an_earlier_version_recorded_are_read_by_what_their_events_show(
    holdfast, tmp_path
):
    needs("root")
    rebooted = _both_dead(holdfast)
    run_in(AFTER_REBOOT, recovery_scenes.recover_in, home=str(tmp_path), words=[])
    _as_earlier(rebooted.id)
    assert (known(rebooted.id).loss, known(rebooted.id).vouched) == (Loss.REBOOT, False)
    holdfast("run", "-n", "b", "sleep", "600", expect=0)
    unseen = known("b")
    kill_shim("b")
    kill(unseen.workload)
    wait_gone(unseen.workload)
    holdfast("recover", expect=0)
    _as_earlier("b")
    assert (known("b").loss, known("b").is_recorded) == (Loss.UNSEEN, True)
    holdfast("run", "-n", "c", "sleep", "600", expect=0)
    holdfast("stop", "--grace", "0", "c", expect=0)
    settled("c")
    _as_earlier("c")
    assert (known("c").stop_reason, known("c").loss) == (StopCause.USER, None)
    table, hints = _listed(holdfast)
    assert "reboot" in table
    assert f"pid {unseen.workload['pid']} GONE" in table
    assert hints == ""


def _as_earlier(name: str) -> None:
    """Without the fields that earlier versions did not record."""
    path = Path(run_of(name).directory.events_path)
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip("\0 ")]
    for line in lines:
        for field in ("loss", "vouched", "stop_reason"):
            line.pop(field, None)
    assert lines[-1]["kind"] in ("ended", "cleaned"), lines[-1]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
