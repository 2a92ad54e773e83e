"""A2, A4: permission is given or refused from outside the run, and by nobody else."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from holdfast.errors import Refused
from tests.support import recovery_scenes, running
from tests.support.asking import asked, asks_nothing, id_of, say, start_talk
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, Place, run_in
from tests.support.recovering import OTHER_BOOT, kill, kill_shim, recovered
from tests.support.running import (
    events_of,
    run_of,
    wait_for_events,
    wait_for_output,
)
from tests.support.terminals import Viewer
from tests.support.waiting import eventually

ended: Any = running.ended  # what is null in it fails a test anyhow
info_of: Any = running.info_of

ASK = ("--approve", "ask")


def test_A2_approved_from_another_process_and_who_did_it_is_recorded(holdfast, talker, tmp_path):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    assert f"approve a {question['id']}" in holdfast("status", "a").stdout
    done = holdfast("approve", "a", question["id"], expect=0)
    assert done.stdout == "a  approved: permission for Bash: touch made\n"
    wait_for_output("a", b"ran touch made")
    assert (tmp_path / "made").exists()
    (over,) = events_of("a", "attention_over")[:1]
    assert (over["id"], over["how"]) == (question["id"], "approved")
    assert (over["by"]["uid"], over["by"]["comm"][:6]) == (os.getuid(), "python")
    again = holdfast("approve", "a", question["id"], expect=4)
    assert "nothing is asked under that id" in again.stderr


def test_A2_denied_with_a_message_that_the_agent_is_told(holdfast, talker, tmp_path):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    no_text = holdfast("deny", "a", question["id"], "--message", "\udcff", expect=2)
    assert "message: it is not UTF-8" in no_text.stderr
    holdfast("deny", "a", question["id"], "--message", 'not "here"', expect=0)
    wait_for_output("a", b'refused touch made not "here"')
    assert not (tmp_path / "made").exists()
    (over,) = events_of("a", "attention_over")[:1]
    assert (over["how"], over["message"]) == ("denied", 'not "here"')


def test_A2_three_questions_at_once_are_answered_each_by_its_id(holdfast, talker, tmp_path):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch one;; ask touch two;; ask touch three")
    asked(3)
    assert "(and 2 more)" in holdfast("ls").stdout
    assert "asks 3 things at once" in holdfast("approve", "a", expect=4).stderr
    run = run_of("a")
    run.approve(id_of("two"))
    run.deny(id_of("one"), "no")
    last = asked(1)
    assert last[0]["text"].endswith("three")
    assert run.approve(last[0]["id"]).how == "approved"
    asks_nothing()
    wait_for_output("a", b"done:")
    assert sorted(path.name for path in tmp_path.glob("t*")) == ["three", "two"]
    assert not (tmp_path / "one").exists()


def test_A2_without_an_id_only_on_a_terminal(holdfast, talker):
    start_talk(holdfast, talker, *ASK)
    assert "asks for no permission" in holdfast("approve", "a", expect=4).stderr
    say(holdfast, "ask touch made")
    (question,) = asked()
    refused = holdfast("approve", "a", expect=4)
    assert f"holdfast approve a {question['id']}" in refused.stderr
    words = f"{sys.executable} -m holdfast approve a"
    holdfast("run", "-n", "typist", "--pty", "--", "sh", "-c", words, expect=0)
    wait_for_output("typist", b"permission for Bash: touch made")
    holdfast("send", "typist", "y", expect=0)
    assert ended("typist").exit_code == 0
    wait_for_output("a", b"ran touch made")


def test_A2_a_run_cant_approve_itself_type_into_itself_or_raise_its_budget(
    holdfast, talker, tmp_path
):
    """What a tool of the agent tries is refused, also from a run that it starts inside."""
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask sh self.sh;; ask touch made")
    asked(2)
    run, mine = f"{sys.executable} -m holdfast", id_of("touch made")
    (tmp_path / "self.sh").write_text(
        f"{run} approve a {mine} 2>approve.txt; echo $? >>approve.txt\n"
        f"env -u HOLDFAST_RUN_ID setsid {run} deny a {mine} 2>deny.txt; echo $? >>deny.txt\n"
        f"{run} send a y 2>send.txt; echo $? >>send.txt\n"
        f"{run} adjust a --on-budget pause 2>adjust.txt; echo $? >>adjust.txt\n"
        f"{run} adjust a --timeout 9h >longer.txt 2>&1; echo $? >>longer.txt\n"
        f"{run} run -n inner --independent -F {run} approve a {mine} 2>inner.txt >inner.txt\n"
        "touch tried\n"
    )
    holdfast("approve", "a", id_of("self.sh"), expect=0)
    eventually((tmp_path / "tried").exists, why="the tool has tried")
    for name in ("approve", "deny", "send", "adjust"):
        said = (tmp_path / f"{name}.txt").read_text()
        assert "from inside the run" in said, name
        assert said.endswith("\n4\n"), name
    assert "from inside the run" in (tmp_path / "inner.txt").read_text()
    assert (tmp_path / "longer.txt").read_text().endswith("\n0\n"), "only a budget is not its own"
    (left,) = asked(1)
    assert left["id"] == mine
    assert not (tmp_path / "made").exists()
    holdfast("deny", "a", mine, expect=0)


def test_A2_the_notice_of_a_run_inside_cant_answer_and_the_runs_own_can(holdfast, talker, tmp_path):
    """Who starts a run chooses its notice: of an inner one that is the agent itself."""
    run = f"{sys.executable} -m holdfast"
    notice = tmp_path / "own.sh"  # answers what it is told of, as a person's own policy may
    notice.write_text("cat >told.json; [ ! -e policy ] || sh policy\n")
    own = ("--notify", f"sh {notice}", "--notify-on", "attention")
    start_talk(holdfast, talker, *ASK, *own)
    say(holdfast, "ask sh self.sh;; ask touch made")
    asked(2)
    mine = id_of("touch made")
    answer = f"{run} approve a {mine} >notice.txt 2>&1; echo $? >>notice.txt; touch told"
    (tmp_path / "self.sh").write_text(f"{run} run -F -n inner --notify '{answer}' true\n")
    holdfast("approve", "a", id_of("self.sh"), expect=0)
    eventually((tmp_path / "told").exists, why="the notice of the run inside has tried")
    said = (tmp_path / "notice.txt").read_text()
    assert "from inside the run" in said
    assert said.endswith("\n4\n")
    assert not (tmp_path / "made").exists()
    (left,) = asked(1)
    assert left["id"] == mine
    holdfast("deny", "a", mine, expect=0)
    asks_nothing()
    which = "import json; print(json.load(open('told.json'))['attention']['id'])"
    (tmp_path / "policy").write_text(f'{run} approve a $({sys.executable} -c "{which}")\n')
    say(holdfast, "ask touch wanted")
    eventually((tmp_path / "wanted").exists, why="the run's own notice has answered")


def test_A2_input_of_a_viewer_inside_is_refused_and_looking_is_not(holdfast, talker, tmp_path):
    start_talk(holdfast, talker, *ASK)
    code = (
        "from tests.support.terminals import Viewer\n"
        "for name, how in (('typing', False), ('looking', True)):\n"
        "    answer = Viewer('a', rows=24, columns=80, read_only=how).answer\n"
        "    print(name, answer, flush=True)\n"
    )
    (tmp_path / "inside.py").write_text(code)
    repository = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = f"PYTHONPATH={repository} {sys.executable} inside.py > seen.txt; touch tried"
    say(holdfast, f"ask {command}")
    holdfast("approve", "a", asked()[0]["id"], expect=0)
    eventually((tmp_path / "tried").exists, why="the tool has tried")
    typing, looking = (tmp_path / "seen.txt").read_text().splitlines()
    assert "'ok': False" in typing
    assert "from inside the run" in typing
    assert looking == "looking {'ok': True}"
    outside = Viewer("a", rows=24, columns=80)
    assert outside.answer["ok"] is True
    outside.close()


def test_A2_an_answer_that_was_not_taken_in_time_stands_and_no_other_is_given(
    holdfast, talker, tmp_path
):
    """The tree is paused, its hooks too: what was sent to one can't be taken back."""
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    asked_id = question["id"]
    holdfast("pause", "a", expect=0)
    late = holdfast("approve", "a", asked_id, expect=6)
    assert "approved, but the agent's hook has not taken that yet; the answer stands" in late.stderr
    for word in ("deny", "approve"):
        refused = holdfast(word, "a", asked_id, expect=4)
        assert "it was approved; the agent has not taken that yet" in refused.stderr
    assert not (tmp_path / "made").exists()
    holdfast("unpause", "a", expect=0)
    wait_for_output("a", b"ran touch made")
    (over,) = [one for one in events_of("a", "attention_over") if one["id"] == asked_id]
    assert (over["how"], over["by"]["uid"]) == ("approved", os.getuid())


def test_A4_a_decided_question_is_not_asked_again_of_an_adopter(holdfast, talker, tmp_path):
    """The shim dies after its answer was sent and before the hook has read it."""
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    holdfast("pause", "a", expect=0)
    holdfast("approve", "a", question["id"], expect=6)
    kill_shim("a")
    recovered(holdfast)
    holdfast("unpause", "a", expect=0)
    eventually((tmp_path / "made").exists, why="the hook has printed what it was sent")
    asks_nothing()
    holdfast("deny", "a", question["id"], expect=4)


def test_A2_another_user_cant_answer(holdfast, talker):
    needs("root")
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    place = Place(pid_namespace=False, uid=65534)
    told = run_in(place, _try_to_approve, home=os.environ["HOLDFAST_HOME"], question=question["id"])
    assert told["code"] != 0
    assert asked()[0]["id"] == question["id"]


def _try_to_approve(home: str, question: str) -> dict[str, int]:
    import subprocess

    command = [sys.executable, "-m", "holdfast", "approve", "a", question]
    done = subprocess.run(command, env={**os.environ, "HOLDFAST_HOME": home}, capture_output=True)
    return {"code": done.returncode}


def test_A2_never_answered_it_is_left_to_its_own_prompt(holdfast, talker):
    start_talk(holdfast, talker, *ASK, "--approve-timeout", "0.2s")
    say(holdfast, "ask touch made")
    (question,) = asked()

    def is_left() -> bool:
        said = holdfast("approve", "a", question["id"]).stderr
        return "only its own prompt is left" in said

    # Once its hook has gone; before that an answer would still be taken.
    _wait_for_hooks_to_end(holdfast)
    assert is_left()
    assert asked()[0]["id"] == question["id"], "somebody is needed all the same"
    say(holdfast, "y")
    asks_nothing()
    wait_for_output("a", b"ran touch made")


def _wait_for_hooks_to_end(holdfast) -> None:
    eventually(lambda: not _hooks(holdfast), why="the hook has ended")


def test_A2_deny_refuses_at_once_and_off_leaves_it_to_the_prompt(holdfast, talker):
    start_talk(holdfast, talker, "--approve", "deny")
    say(holdfast, "ask touch made")
    wait_for_output("a", b"refused touch made Denied: this run was started with --approve deny.")
    assert wait_for_events("a", "attention_over")[0]["by"] == {"option": "approve"}
    start_talk(holdfast, talker, name="b")
    say(holdfast, "ask touch made", name="b")
    (question,) = asked(name="b")
    said = holdfast("approve", "b", question["id"], expect=4).stderr
    assert "not started with --approve ask" in said


@pytest.mark.parametrize(
    ("options", "words", "why"),
    [
        (("--pty", "--agent-hooks", "off"), ("claude",), "not told to report"),
        (("--pty",), ("claude", "--bare"), "it runs no hooks"),
        (("--pty",), ("sleep", "1"), "no agent is recognised"),
        (("--pty", "--approve-timeout", "2d"), ("claude",), "23h at most"),
    ],
)
def test_A2_where_it_cant_hold_it_is_refused_at_the_start(holdfast, talker, options, words, why):
    words = tuple(talker if word == "claude" else word for word in words)
    done = holdfast("run", "-n", "a", *ASK, *options, "--", *words)
    assert done.returncode in (2, 4)
    assert why in done.stderr
    holdfast("status", "a", expect=3)


def test_A4_the_agent_dies_while_it_asks(holdfast, talker):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    kill(info_of("a").workload.to_json())
    info = ended("a")
    assert info.attention is None
    assert "has ended" in holdfast("approve", "a", question["id"], expect=4).stderr


def test_A4_an_asker_of_which_only_the_hook_is_left_asks_no_more(holdfast, talker):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "fork touch made")
    asked()
    os.kill(_asker_of(_hooks(holdfast)[0]["pid"]), signal.SIGKILL)
    asks_nothing()
    assert wait_for_events("a", "attention_over")[0]["how"] == "agent gone"


def _hooks(holdfast):
    tree = holdfast("tree", "a", "--json").json
    seen = [one for one in _processes(tree) if one["verdict"] == "SAME"]
    return [one for one in seen if one["cmdline"][-1].endswith("hook_program.py")]


def _processes(value):
    if isinstance(value, dict):
        if "token" in value and value.get("cmdline"):
            yield value
        for one in value.values():
            yield from _processes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _processes(one)


def _asker_of(pid: int) -> int:
    """The first above it that is no shell: who asked."""
    from holdfast.process.procfs import read_stat

    above = read_stat(read_stat(pid).ppid)
    while above.comm in ("sh", "dash", "bash"):
        above = read_stat(above.ppid)
    return above.pid


def test_A4_the_shim_dies_while_a_question_is_open_and_its_adopter_is_asked(
    holdfast, talker, tmp_path
):
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    (question,) = asked()
    kill_shim("a")
    assert info_of("a").attention is None, "nobody can tell now"
    assert recovered(holdfast)["a"]["action"] == "adopted"
    (again,) = asked()
    assert (again["id"], again["since"]) == (question["id"], question["since"])

    def approved() -> bool:
        try:
            return run_of("a").approve(question["id"]).how == "approved"
        except Refused:  # its hook has not called again yet
            return False

    eventually(approved, why="the adopter passes the answer on")
    eventually((tmp_path / "made").exists, why="the agent was told")


def test_A4_lost_to_a_reboot_nothing_is_asked(holdfast, talker, tmp_path):
    needs("root")
    start_talk(holdfast, talker, *ASK)
    say(holdfast, "ask touch made")
    asked()
    workload = info_of("a").workload
    kill_shim("a")
    after = Place(pid_namespace=False, covers={BOOT_ID: OTHER_BOOT})
    looked = run_in(after, recovery_scenes.stands, home=str(tmp_path), name="a")
    assert (looked["state"], looked["outcome"]) == ("ended", "lost")
    run_in(after, recovery_scenes.recover_in, home=str(tmp_path), words=[])
    assert info_of("a").attention is None
    kill(workload.to_json())
