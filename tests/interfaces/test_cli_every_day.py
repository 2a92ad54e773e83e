"""What a new user of the command line does in a day, and reads."""

from __future__ import annotations

import re

import pytest

from tests.support.running import info_of, settled
from tests.support.terminals import on_screen
from tests.support.waiting import eventually


def test_run_q_from_cron_prints_nothing_when_it_starts_and_when_it_is_running(holdfast):
    words = ("run", "-q", "-n", "sync", "sleep", "600")
    for code in (0, 4):
        said = holdfast(*words, expect=code)
        assert (said.stdout, said.stderr) == ("", "")
    said = holdfast("run", "-q", "--replace", *words[2:], expect=0)
    assert (said.stdout, said.stderr) == ("", "")
    holdfast("stop", "sync", expect=0)


def test_run_q_still_says_what_failed(holdfast):
    said = holdfast("run", "-q", "-n", "sync", "/no/such/program", expect=127)
    assert said.stdout == ""
    assert "/no/such/program" in said.stderr
    assert holdfast("run", "-q", "--timeout", "soon", "true", expect=2).stderr


def test_rerun_q_prints_nothing(holdfast):
    holdfast("run", "-q", "-n", "a", "true", expect=0)
    settled("a")
    said = holdfast("rerun", "-q", "a", expect=0)
    assert (said.stdout, said.stderr) == ("", "")
    settled("a")


@pytest.mark.parametrize("how", [[], ["-F"]], ids=["in the background", "in the foreground"])
def test_a_shell_line_in_one_word_hints_at_sh(holdfast, how):
    said = holdfast("run", *how, "echo hi | wc", expect=127)
    assert "hint: a shell runs such a line: holdfast run sh -c 'echo hi | wc'" in said.stderr
    assert "sh -c" not in holdfast("run", *how, "nonesuch", expect=127).stderr
    assert "sh -c" not in holdfast("run", *how, "nonesuch", "a|b", expect=127).stderr


@pytest.mark.parametrize("how", [[], ["-F"]], ids=["in the background", "in the foreground"])
def test_the_name_of_a_run_in_place_of_a_command_hints_at_status(holdfast, how):
    holdfast("run", "-n", "web", "true", expect=0)
    said = holdfast("run", *how, "web", expect=127)
    assert "hint: a run has that name: holdfast status web" in said.stderr
    assert "has that name" not in holdfast("run", *how, "nonesuch", expect=127).stderr


def test_an_outcome_given_as_a_state_is_named(holdfast):
    said = holdfast("ls", "--state", "failed", expect=2)
    assert "hint: --outcome failed" in said.stderr
    assert "invalid choice" in holdfast("ls", "--state", "moon", expect=2).stderr


def test_status_of_an_ended_run_lists_no_process_that_is_gone(holdfast):
    holdfast("run", "-n", "f", "false", expect=0)
    settled("f")
    assert "\nprocesses" not in holdfast("status", "f", expect=0).stdout
    holdfast("run", "-n", "r", "sleep", "600", expect=0)
    assert "\nprocesses" in holdfast("status", "r", expect=0).stdout
    holdfast("stop", "r", expect=0)


def test_a_queue_that_is_idle_says_where_its_runs_are(holdfast):
    holdfast("run", "-n", "a", "-Q", "main", "true", expect=0)
    settled("a")
    assert "hint: holdfast ls" in holdfast("queue", expect=0).stderr
    assert holdfast("queue", "-q", expect=0).stderr == ""


def test_wait_says_how_a_run_ended_once(holdfast):
    holdfast("run", "-n", "k", "sh", "-c", "kill -9 $$", expect=0)
    said = holdfast("wait", "k", expect=137)
    assert said.stdout.startswith("k  killed by SIGKILL")
    assert said.stderr == ""
    holdfast("run", "-n", "t", "--timeout", "0.2s", "sleep", "600", expect=0)
    said = holdfast("wait", "t", expect=124)
    assert said.stdout.startswith("t  timed out")
    assert "timed out" not in said.stderr
    assert said.stderr.startswith("holdfast: t: ")  # why, which stdout does not say
    # Without the line on stdout, stderr says it all.
    assert holdfast("wait", "-q", "k", expect=137).stderr.startswith("holdfast: k: killed by ")


def test_clean_dry_run_says_that_a_run_would_be_removed(holdfast):
    holdfast("run", "-n", "y", "true", expect=0)
    settled("y")
    said = holdfast("clean", "--keep", "0", "--dry-run", expect=0).stdout
    assert said.splitlines()[0] == "y  would be removed: beyond the newest 0"
    assert said.splitlines()[1].startswith("1 would be removed (")
    assert holdfast("ls", "-q", expect=0).stdout == "y\n"


def runs_of(holdfast, *words: str) -> list[str]:
    return [one["name"] for one in holdfast("ls", "--all", "--json", *words).json["runs"]]


def make_ended(holdfast, *names: str) -> None:
    for name in names:
        holdfast("run", "-n", name, "true", expect=0)
        settled(name)


def test_rm_says_that_an_older_run_has_the_name_now_and_rm_older_removes_it(holdfast):
    make_ended(holdfast, "web", "web", "web", "other")
    assert holdfast("rm", "web", expect=0).stderr == (
        "2 older web remain: holdfast rm --older web\n"
    )
    said = holdfast("rm", "--older", "web", expect=0)
    assert [line.split()[0] for line in said.stdout.splitlines()] == ["web", "web"]
    assert said.stderr == ""
    assert runs_of(holdfast) == ["other"]


def test_rm_of_an_older_run_by_its_id_says_nothing_of_the_name(holdfast):
    make_ended(holdfast, "web")
    older = info_of("web").id
    make_ended(holdfast, "web", "web")
    assert holdfast("rm", older, expect=0).stderr == ""
    newest = info_of("web").id
    said = holdfast("rm", newest, "--json", expect=0).json["runs"][0]
    assert said["older"] == [info_of("web").id]


def test_rm_older_leaves_the_active_run_and_what_is_tagged_keep(holdfast):
    holdfast("run", "-n", "web", "--tag", "keep", "true", expect=0)
    kept = settled("web").id
    make_ended(holdfast, "web", "web")
    holdfast("run", "-n", "web", "sleep", "600", expect=0)
    active = info_of("web").id
    said = holdfast("rm", "--older", "web", "--json", expect=0).json["runs"]
    assert [one["removed"] for one in said] == [True, True]
    left = holdfast("ls", "--all", "--json").json["runs"]
    assert [one["id"] for one in left] == [active, kept]
    holdfast("rm", "--stop", "--older", "web", expect=0)
    assert [one["id"] for one in holdfast("ls", "--all", "--json").json["runs"]] == [kept]


@pytest.mark.parametrize("time", ["1m", "1.5h", "90"])
@pytest.mark.parametrize("others", [[], ["hang-*"], ["hang-1"], ["--all"]])
def test_rm_older_takes_no_time(holdfast, time, others):
    make_ended(holdfast, "hang-1")
    said = holdfast("rm", "--older", time, *others, expect=2)
    assert f"holdfast clean --older-than {time}" in said.stderr
    assert runs_of(holdfast) == ["hang-1"]


def test_rm_older_of_a_run_that_is_named_like_a_time(holdfast):
    make_ended(holdfast, "1m", "1m", "other")
    holdfast("rm", "--older", "1m", expect=0)
    assert runs_of(holdfast) == ["other"]


def test_globs_say_which_runs(holdfast):
    make_ended(holdfast, "train-1", "train-2", "train-2", "Other")
    holdfast("run", "-n", "train-3", "sleep", "600", expect=0)
    # stop: the active ones.
    said = holdfast("stop", "train-*", "--json", expect=0).json["runs"]
    assert [one["name"] for one in said] == ["train-3"]
    assert holdfast("stop", "train-*", expect=0).stderr == "there is nothing to stop\n"
    # wait and logs: of each name the run that it means, ended or not.
    said = holdfast("wait", "TRAIN-[12]", "other", "--json", expect=0).json["runs"]
    assert [one["id"] for one in said][2] == info_of("Other").id
    assert {one["id"] for one in said[:2]} == {info_of("train-1").id, info_of("train-2").id}
    assert holdfast("logs", "train-*", expect=0).stdout == ""
    # archive and rm: every run, each once.
    said = holdfast("archive", "train-1*", "train-1", "--json", expect=0).json["runs"]
    assert [one["name"] for one in said] == ["train-1"]
    said = holdfast("rm", "train-*", "--outcome", "succeeded", "--json", expect=0).json["runs"]
    assert [one["name"] for one in said] == ["train-2", "train-2"]
    said = holdfast("rm", "t*", "o?her", "--json", expect=0).json["runs"]
    assert [one["name"] for one in said] == ["train-3", "Other"]
    assert runs_of(holdfast) == []


def test_rm_with_a_glob_refuses_what_is_alive_and_stops_it_when_told(holdfast):
    make_ended(holdfast, "a-1")
    holdfast("run", "-n", "a-2", "sleep", "600", expect=0)
    said = sorted(holdfast("rm", "a-*", expect=4).stdout.splitlines())
    assert said[0].startswith("a-1  removed")
    assert said[1].startswith("a-2  NOT removed")
    holdfast("rm", "--stop", "a-*", expect=0)
    assert runs_of(holdfast) == []


@pytest.mark.parametrize("verb", ["stop", "wait", "logs", "rm", "archive"])
def test_a_glob_that_matches_nothing_is_not_found(holdfast, verb):
    make_ended(holdfast, "a")
    said = holdfast(verb, "zz-*", expect=3)
    assert "no run's name matches zz-*" in said.stderr
    holdfast(verb, "../*", expect=2)
    assert "not both" in holdfast(verb, "a", "--tag", "x", expect=2).stderr


@pytest.mark.parametrize(
    ("answer", "left"), [(b"y\r", []), (b"\r", ["true-1", "true-2"])], ids=["yes", "no"]
)
def test_rm_with_a_glob_asks_once_on_a_terminal_and_says_how_many(holdfast, answer, left):
    make_ended(holdfast, "true-1", "true-2")
    with on_screen(holdfast.argv("rm", "true-*")) as screen:
        asked = screen.read_until(b"? [y/N] ")
        assert asked.startswith(b"remove 2 runs (true-")
        screen.type(answer)
        assert screen.ends() == (1 if left else 0)
        assert (b"nothing was removed" in screen.seen) == bool(left)
    assert sorted(runs_of(holdfast)) == left


def test_rm_y_does_not_ask_and_a_name_alone_is_not_asked_about(holdfast):
    make_ended(holdfast, "a-1", "a-2", "b")
    for words in (["-y", "a-*"], ["b"]):
        with on_screen(holdfast.argv("rm", *words)) as screen:
            assert screen.ends() == 0
            assert b"[y/N]" not in screen.seen
    assert runs_of(holdfast) == []


def test_replace_names_a_process_also_of_a_workload_that_was_never_found(holdfast):
    holdfast("run", "-n", "a", "--workload", "nonesuch", "sleep", "600", expect=0)
    said = holdfast("run", "-n", "a", "--replace", "true", expect=0).stderr
    assert re.search(r"replaced a \(\w+\): \d+ stopped, ", said)
    settled("a")


def test_logs_grep_all_looks_into_every_run(holdfast):
    holdfast("run", "-n", "over", "--tag", "b=1", "sh", "-c", "echo an Error", expect=0)
    holdfast("wait", "over", expect=0)
    holdfast("run", "-n", "going", "sh", "-c", "echo error; exec sleep 600", expect=0)
    eventually(lambda: holdfast("logs", "going").stdout)
    said = holdfast("logs", "--grep", "error", "-i", "--all", expect=0).stdout
    assert sorted(said.split()) == sorted(["over", "|", "0:an", "Error", "going", "|", "0:error"])
    assert (
        holdfast("logs", "--grep", "error", "-i", "--tag", "b", expect=0).stdout == "0:an Error\n"
    )
    assert holdfast("logs", "--all", expect=0).stdout == "error\n"  # what is going on
    holdfast("stop", "going", expect=0)
