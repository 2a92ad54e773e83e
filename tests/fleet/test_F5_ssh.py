"""F5: runs elsewhere, over ssh: the same words, exit codes and documents as of those here."""

from __future__ import annotations

import json
import re
import signal
import subprocess

from tests.fleet import library_scenes
from tests.support.kernel_lab import Place, python_for, run_in
from tests.support.pretend_talker import install
from tests.support.sshd import end_shared_connections
from tests.support.terminals import DETACH, Screen
from tests.support.waiting import eventually


def play(submitter, scene, **arguments):
    env = {
        name: value
        for name, value in submitter.env().items()
        if name.startswith(("XDG_", "HOLDFAST_HOME")) or name == "HOME"
    }
    place = Place(pid_namespace=False, uid=submitter.uid, env=env)
    return run_in(place, scene, timeout=110, **arguments)


def test_F5_a_run_elsewhere_is_handled_like_one_here(submitter, world):
    started = submitter("run", "--on", "ssh:n1", "-n", "talk", "--pty", "cat", expect=0)
    assert started.stdout == "talk\n"
    info = submitter.info("talk")
    assert (info["state"], info["name"], info["pty"]) == ("running", "talk", True)
    assert (info["placement"]["engine"], info["placement"]["target"]) == ("ssh", "ssh:n1")
    submitter("send", "talk", "hello", expect=0)
    eventually(lambda: "hello\r\nhello" in submitter("logs", "--raw", "talk").stdout, 60)
    shown = submitter("status", "talk", expect=0).stdout
    assert "running" in shown
    assert "placed" in shown
    assert "cat" in submitter("tree", "talk", expect=0).stdout
    stopped = submitter("stop", "talk", "--json", expect=0).json
    assert stopped["runs"][0]["outcome"] == "stopped"
    assert submitter("wait", "talk").returncode == 128 + signal.SIGTERM
    assert submitter("events", "talk", expect=0).json_lines[-1]["kind"] == "ended"
    (listed,) = submitter("ls", "--fleet", "--json", expect=0).json["runs"]
    assert (listed["id"], listed["outcome"]) == (info["id"], "stopped")
    submitter("rm", "talk", expect=0)
    assert submitter("status", "talk").returncode == 3
    assert world.run_ids(world.nodes["n1"]) == []


def test_F5_what_an_agent_elsewhere_waits_for_ends_a_wait(submitter, world):
    submitter("run", "--on", "ssh:n1", "-n", "other", "sleep", "600", expect=0)
    claude = install(world.folder, python_for(world.uid))
    submitter("run", "--on", "ssh:n1", "-n", "asks", "--pty", "--", claude, expect=0)
    eventually(lambda: "ready" in submitter("logs", "--raw", "asks").stdout, 60)
    submitter("send", "asks", "ask true", expect=0)
    done = submitter("wait", "other", "asks", "--attention", "--timeout", "90", expect=0)
    assert done.stdout == "asks  needs you: permission for Bash: true\n"
    assert submitter.info("asks")["attention"]["kind"] == "permission"
    assert submitter("wait", "other", "--attention", "--timeout", "1").returncode == 75
    submitter("stop", "asks", "other", expect=0)


def test_F5_the_library_has_every_method_of_a_run(submitter):
    facts = play(submitter, library_scenes.use_the_library)
    assert facts.pop("repr").endswith("on='ssh:n1')")
    assert facts == {
        "states": ["running", "running"],
        "paused": True,
        "ended": ["failed", 3],
        "output": "one\ngot y\xff\n",
        "tail": "got y\xff\n",
        "followed": "got y\xff\n",
        "lines": ["one", "got y\xff"],
        "report": [True, True],
        "rerun": "one\ngot z\n",
        "resume": "refused",
        "diff": ["refused", "refused"],
        "removed": True,
        "gone": "run-not-found",
        "archived": True,
        "no directory": "wrong-use",
    }


def test_F5_many_runs_on_two_nodes_are_started_once_each(submitter, world):
    world.node("n2")
    world.configure()
    assert play(submitter, library_scenes.use_many, on=["ssh:n1", "ssh:n2"]) == {
        "codes": [0, 1, 2, 3, 4, 5],
        "hosts": 2,
        "same": True,
        "any": ["ended", "running"],
    }
    for node in world.nodes.values():
        assert len(world.run_ids(node)) == 3


def test_F5_what_runs_on_two_nodes_wrote_has_their_names(submitter, world):
    world.node("n2")
    world.configure()
    submitter("run", "-n", "here", "echo", "h", expect=0)
    for name, node in (("one", "n1"), ("two", "n2")):
        submitter("run", "--on", f"ssh:{node}", "-n", name, "printf", name, expect=0)
    names = ("here", "one", "two")
    submitter("wait", *names, expect=0)
    lines = submitter("logs", "--json", *names, expect=0).json_lines
    assert [(line["name"], line["text"]) for line in lines] == [
        *(("here", "h"), ("one", "one"), ("two", "two"))
    ]
    shown = submitter("logs", *names, expect=0).stdout
    assert shown == "here | h\none | one\ntwo | two\n"
    said = submitter("stop", "--json", "--grace", "soon", "one", "two", expect=2).json["runs"]
    assert [(one["name"], one["error"]["code"]) for one in said] == [
        *(("one", "invalid-option"), ("two", "invalid-option"))
    ]
    world.nodes["n2"].stop()
    *read, failed = submitter("logs", "--json", *names, expect=6).json_lines
    assert [line["text"] for line in read] == ["h", "one"]
    assert (failed["name"], failed["error"]["code"]) == ("two", "no-answer")


def test_F5_an_engine_that_no_settings_name_any_more_hides_no_other_run(submitter, world):
    forgotten = world.node("n2")
    world.configure()
    for where in ("ssh:n1", "n2"):
        submitter("run", "--on", where, "-n", where[-2:], "sleep", "600", expect=0)
    died = {"HOLDFAST_CRASH_AT": "submitter.bound@submitter"}
    for where, name in (("n2", "there"), ("ssh:n1", "begun")):
        submitter("run", "--on", where, "-n", name, "sleep", "600", env=died)
    del world.nodes["n2"]
    world.configure()
    rows = submitter("ls", "--fleet", "--json", expect=0).json["runs"]
    states = {row["name"]: (row["state"], row["evidence"]) for row in rows}
    recovered = submitter("fleet", "recover", "--json", expect=6).json["placements"]
    world.nodes["n2"] = forgotten
    assert states["n1"][0] == "running"
    assert states["n2"][0] == "unknown"
    assert "'n2' is no place to run something" in states["n2"][1]
    outcomes = {row["name"]: row["outcome"] for row in recovered}
    assert outcomes == {"there": "unknown", "begun": "started"}


def test_F5_asyncio_has_the_same_names(submitter):
    facts = play(submitter, library_scenes.use_asyncio)
    assert facts == {"said": "hello", "outcome": "stopped", "output": "hello\n"}


def test_F5_the_documents_of_both_have_the_same_fields(submitter):
    submitter("run", "-n", "here", "true", expect=0)
    submitter("run", "--on", "ssh:n1", "-n", "there", "true", expect=0)
    submitter("wait", "here", "there", expect=0)
    here, there = submitter.info("here"), submitter.info("there")
    assert here.keys() == there.keys()
    assert (here["outcome"], there["outcome"]) == ("succeeded", "succeeded")
    assert (here["placement"] is None, there["placement"] is None) == (True, False)
    both = submitter("stop", "here", "there", "nowhere", "--json")
    assert both.returncode == 3
    assert [row.get("id") for row in both.json["runs"]].count(there["id"]) == 1


def test_F5_mistakes_and_refusals_have_the_codes_of_a_local_start(submitter):
    on = ("run", "--on", "ssh:n1")
    missing = submitter(*on, "-n", "x", "no-such-program")
    assert (missing.returncode, missing.stdout) == (127, "x\n")
    assert submitter(*on, "--timeout", "soon", "true").returncode == 2
    assert submitter(*on, "-C", "/nowhere", "true").returncode == 125
    submitter(*on, "-n", "twice", "sleep", "600", expect=0)
    taken = submitter(*on, "-n", "twice", "--json", "sleep", "600")
    assert (taken.returncode, taken.json["error"]["code"]) == (4, "already-running")
    assert submitter("run", "--on", "moon", "true").returncode == 2
    assert submitter("run", "--cpus", "2", "true").returncode == 2
    assert submitter("ls", "--fleet", "--on", "bogus:x").returncode == 2
    assert submitter(*on, "--key", "", "true").returncode == 2
    # What was refused is not in the ledger.
    listed = submitter("ls", "--fleet", "--json").json["runs"]
    assert [row["outcome"] for row in listed if row["name"] != "twice"] == ["never_started"]


def test_F5_in_the_foreground_output_signals_and_code_come_through(submitter):
    script = "trap 'echo ouch; exit 7' INT; echo ready; while :; do sleep 0.1; done"
    process = submitter.start("run", "-F", "--on", "ssh:n1", "-n", "fg", "sh", "-c", script)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=90)
    assert (process.returncode, rest) == (7, b"ouch\n"), errors


def test_F5_output_is_followed_byte_for_byte_until_the_end(submitter):
    submitter("run", "--on", "ssh:n1", "-n", "f", "sh", "-c", "printf 'a\\0b'; read x", expect=0)
    process = submitter.start("logs", "-f", "f")
    assert process.stdout.read(3) == b"a\0b"
    submitter("stop", "f", expect=0)
    rest, _ = process.communicate(timeout=90)
    assert (process.returncode, rest) == (0, b"")


def test_F5_attach_joins_the_terminal_on_the_node(submitter):
    submitter("run", "--on", "ssh:n1", "-n", "tty", "--pty", "cat", expect=0)
    screen = Screen(submitter.argv("attach", "tty"), 30, 90, env=submitter.env())
    try:
        screen.read_until(b"attached to tty", 60)
        screen.type(b"over there\r")
        screen.read_until(b"over there\r\nover there", 60)
        screen.type(DETACH)
        screen.read_until(b"detached from tty", 60)
        assert screen.process.wait(60) == 0
    finally:
        screen.close()
    assert submitter.info("tty")["state"] == "running"


def test_F5_a_cut_link_ends_attach_with_6_and_a_word(submitter, world):
    submitter("run", "--on", "ssh:n1", "-n", "tty", "--pty", "cat", expect=0)
    screen = Screen(submitter.argv("attach", "tty"), 30, 90, env=submitter.env())
    try:
        screen.read_until(b"attached to tty", 60)
        eventually(lambda: not screen.is_as_it_was(), 60, "the terminal is raw")
        world.nodes["n1"].stop()
        screen.read_until(b"tty is not attached any more", 60)
        assert screen.process.wait(60) == 6
        assert screen.is_as_it_was()
    finally:
        screen.close()
        world.nodes["n1"].start()


def test_F5_a_batch_places_each_line(submitter):
    lines = "true\n" + json.dumps({"command": ["sh", "-c", "exit 4"], "name": "four"}) + "\n"
    batch = ("run", "--batch", "-", "--on", "ssh:n1", "--key", "b", "--json")
    first = submitter(*batch, stdin=lines.encode(), expect=0).json_lines
    assert [row["line"] for row in first] == [1, 2]
    again = submitter(*batch, stdin=lines.encode(), expect=0).json_lines
    assert [row["id"] for row in again] == [row["id"] for row in first]
    assert submitter("wait", "four").returncode == 4


def test_a_name_here_and_there_means_the_active_one_and_two_have_to_be_told_apart(submitter):
    submitter("run", "-n", "a", "true", expect=0)
    submitter("wait", "a", expect=0)
    submitter("run", "--on", "ssh:n1", "-n", "a", "sleep", "600", expect=0)
    there = submitter.info("a")
    assert (there["state"], there["placement"] is None) == ("running", False)
    submitter("run", "-n", "a", "sleep", "600", expect=0)
    both = submitter("status", "a")
    assert both.returncode == 2
    assert there["id"] in both.stderr
    submitter("stop", there["id"], expect=0)
    assert submitter.info("a")["placement"] is None
    submitter("stop", "a", expect=0)


def test_a_refused_second_start_leaves_the_name_to_the_run_that_has_it(submitter):
    submitter("run", "--on", "ssh:n1", "-n", "kept", "sleep", "600", expect=0)
    kept = submitter.info("kept")["id"]
    assert submitter("rerun", "kept").returncode == 4
    assert submitter("run", "--on", "ssh:n1", "-n", "kept", "true").returncode == 4
    assert submitter("stop", "kept", expect=0).stdout.startswith("kept")
    assert submitter("resume", "kept", "go").returncode == 4
    assert submitter.info("kept")["id"] == kept
    assert submitter("wait", "kept").returncode == 128 + signal.SIGTERM
    submitter("run", "--on", "ssh:n1", "-n", "kept", "true", expect=0)
    submitter("wait", "kept", expect=0)
    submitter("rm", "kept", expect=0)
    assert submitter.info("kept")["id"] == kept


def test_a_start_under_way_takes_the_name_from_no_active_run(submitter):
    submitter("run", "--on", "ssh:n1", "-n", "amb", "sleep", "600", expect=0)
    running = submitter.info("amb")
    for at in ("submitter.intended", "submitter.bound"):  # for the ledger it is under way
        env = {"HOLDFAST_CRASH_AT": f"{at}@submitter"}
        killed = submitter("run", "--on", "ssh:n1", "-n", "amb", "true", env=env)
        assert killed.returncode == -signal.SIGKILL
        assert submitter.info("amb")["id"] == running["id"]
    assert submitter("stop", "amb", expect=0).stdout.startswith("amb")


def test_the_words_about_a_run_elsewhere_are_those_of_one_here(submitter, world):
    on = ("run", "--on", "ssh:n1", "-n", "w", "--key")
    submitter(*on, "k1", "sh", "-c", "sleep 600", expect=0)
    assert submitter("pause", "w", expect=0).stdout == "w  paused\n"
    assert submitter("unpause", "w", expect=0).stdout == "w  unpaused\n"
    first = submitter.info("w")["id"]
    replaced = submitter(*on, "k2", "--replace", "sh", "-c", "sleep 600", expect=0)
    assert f"replaced w ({first}): " in replaced.stderr
    assert "stopped" in replaced.stderr
    world.nodes["n1"].stop()
    end_shared_connections(submitter.runtime / "holdfast-ssh")
    shown = submitter("status", "w", expect=0).stdout
    assert "command   sh -c 'sleep 600'\n" in shown
    assert re.search(r"^placed    \d\d:\d\d:\d\d by ", shown, re.MULTILINE)
    submitter("fleet", "give-up", "w", expect=0)
    (listed,) = [one for one in submitter("ls", "--fleet").stdout.splitlines() if "lost" in one]
    assert "given up by" in listed
    assert "GONE" not in listed
    assert "as their assertion" in submitter("wait", "w").stderr
    world.nodes["n1"].start()
    again = submitter(*on, "k2", "true")
    assert (again.returncode, submitter.info("w")["state"]) == (4, "running")
    submitter("stop", "w", expect=0)


def test_an_ended_run_is_not_given_up_and_its_key_stays_taken(submitter):
    start = ("run", "--on", "ssh:n1", "-n", "e", "--key", "k", "true")
    submitter(*start, expect=0)
    submitter("wait", "e", expect=0)
    first = submitter.info("e")["id"]
    (node,) = submitter("fleet", "nodes", "--json", expect=0).json["nodes"]
    assert node["active"] == 0
    refused = submitter("fleet", "give-up", "e")
    assert refused.returncode == 4
    assert f"holdfast rm {first} frees its key" in refused.stderr
    submitter(*start, expect=0)
    assert submitter.info("e")["id"] == first
    assert "holdfast ls --fleet" in submitter("status", "nowhere").stderr


def test_who_never_places_a_run_elsewhere_loads_nothing_of_it(holdfast):
    holdfast("run", "-n", "x", "true", expect=0)
    argv = holdfast.argv("status", "x")
    traced = subprocess.run(
        [argv[0], "-X", "importtime", *argv[1:]], capture_output=True, text=True, check=True
    )
    assert "holdfast.fleet" not in traced.stderr
    assert "holdfast.manage.starting.elsewhere" in traced.stderr
