"""A8: hostile, huge or endless words on the way of the hooks: refused, bounded; no harm is done."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agents.hook_words import PROGRAM
from tests.support.asking import asked, asks_nothing, questions, say, start_talk
from tests.support.running import events_of, info_of, run_of, wait_for_output
from tests.support.waiting import eventually

ASK = {"hook_event_name": "PermissionRequest", "session_id": "s1", "tool_name": "Bash"}

# Runs inside the run, as a tool of its agent: what it is told comes out as one line each.
INSIDE = """
import base64, json, os, socket, sys
def dial():
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    os.chdir(os.environ["HOLDFAST_HOME"] + "/runs/" + os.environ["HOLDFAST_RUN_ID"])
    one.connect("control")
    return one
def tell(request):
    one = dial()
    try:
        one.sendall(request + b"\\n")
        said = one.recv(65536)
    except OSError as error:
        said = type(error).__name__.encode()
    return one, said
def report(value, id="abcdefabcdef", **more):
    said = base64.b64encode(json.dumps(value).encode()).decode()
    return json.dumps({"do": "hook", "id": id, "base64": said, **more}).encode()
"""


def _inside(holdfast, tmp_path: Path, code: str) -> list[str]:
    """Play that in the tree of run a; the lines that it prints."""
    (tmp_path / "inside.py").write_text(INSIDE + code)
    said, done = tmp_path / "said.txt", tmp_path / "done"
    say(holdfast, f"ask {sys.executable} inside.py > {said} 2>&1; touch {done}")
    asked()
    say(holdfast, "y")
    eventually(done.exists, 120, why="the tool has tried")
    return said.read_text().splitlines()


def _is_well(holdfast) -> None:
    asks_nothing()
    assert info_of("a").state == "running"
    assert events_of("a", "fault") == []
    say(holdfast, "hello")
    wait_for_output("a", b"done: hello")


def test_A8_nonsense_is_refused_and_the_run_goes_on(holdfast, talker, tmp_path):
    start_talk(holdfast, talker)
    told = _inside(
        holdfast,
        tmp_path,
        """
deep = base64.b64encode(b"[" * 60000).decode()
for request in (
    b"{}", b'{"do":"hook"}', b'{"do":"hook","id":"abcdefabcdef","base64":"%%%"}',
    report([1, 2]), report({}, id="../../x"), report({}, id="a" * 100000), report("x" * 200000),
    b'{"do":"hook","id":"abcdefabcdef","base64":"' + deep.encode() + b'"}',
    b'{"do":"hook_done"}', b'{"do":"answer","id":"abcdefabcdef","allow":true}',
    b'{"do":"answer"}',
):
    print(tell(request)[1].decode().strip()[:200])
one = dial()
try:
    while True:
        one.sendall(b"x" * (1 << 20))
except OSError as error:
    print("endless:", type(error).__name__)
""",
    )
    assert len(told) == 12, told
    assert all(json.loads(line)["ok"] is False for line in told[:-1]), told
    assert told[-1].startswith("endless: ")
    _is_well(holdfast)


def test_A8_hostile_values_are_shown_as_text_and_name_no_file(holdfast, talker, tmp_path):
    start_talk(holdfast, talker)
    (tmp_path / "inside.py").write_text(
        INSIDE
        + f"""
ask = dict({ASK!r}, session_id="../../../etc/passwd")
ask["tool_input"] = {{"command": "\\x1b[2Jls\\u202e\\ud800"}}
one, said = tell(report(ask))
one.recv(1)
"""
    )
    say(holdfast, f"ask {sys.executable} inside.py")
    asked()
    say(holdfast, "y")
    (question,) = [one for one in asked(2) if "inside.py" not in one["text"]]
    assert question["text"].startswith("permission for Bash: ")
    listed = holdfast("ls").stdout + holdfast("status", "a").stdout
    assert "\x1b[2J" not in listed
    assert "\u202e" not in listed
    assert info_of("a").session != {"id": "../../../etc/passwd", "transcript": None}
    holdfast("stop", "a", expect=0)


def test_A8_questions_are_bounded(holdfast, talker, tmp_path):
    start_talk(holdfast, talker)
    told = _inside(
        holdfast,
        tmp_path,
        f"""
kept = []
for number in range(400):
    ask = dict({ASK!r}, tool_input={{"command": f"c{{number}}" * 3000}})
    one, said = tell(report(ask, id=f"{{number:012x}}"))
    kept.append(one)
    print(said.decode().strip())
""",
    )
    held = [line for line in told if json.loads(line).get("hold")]
    assert 0 < len(held) <= 32
    assert len(events_of("a", "attention_needed")) <= 130
    assert len(list(questions(info_of("a")))) <= 33
    _is_well(holdfast)
    events = Path(run_of("a").directory.events_path)
    assert events.stat().st_size < 4 << 20


def test_A8_the_same_id_is_one_question(holdfast, talker, tmp_path):
    start_talk(holdfast, talker)
    told = _inside(
        holdfast,
        tmp_path,
        f"""
ask = dict({ASK!r}, tool_input={{"command": "c"}})
first = tell(report(ask))
print(first[1].decode().strip())
print(tell(report(ask))[1].decode().strip())
""",
    )
    assert json.loads(told[0])["hold"] is True
    assert "another question has that id" in json.loads(told[1])["error"]
    _is_well(holdfast)


def test_A8_reports_from_outside_are_refused(holdfast, talker):
    start_talk(holdfast, talker)
    spec = run_of("a").directory.read_spec()
    stamped = {name: spec.env[name] for name in ("HOLDFAST_RUN_ID", "HOLDFAST_HOME")}
    for environment in ({}, stamped):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(20)
            here = os.getcwd()
            os.chdir(run_of("a").directory.path)
            one.connect("control")
            os.chdir(here)
            said = base64.b64encode(json.dumps({**ASK, "tool_input": {}}).encode()).decode()
            request = {"do": "hook", "id": "abcdefabcdef", "base64": said}
            one.sendall(json.dumps(request).encode() + b"\n")
            assert json.loads(one.recv(65536))["ok"] is False
        # The hook program itself, with the run's stamp, by somebody who is not of its tree.
        command = [sys.executable, "-I", "-S", PROGRAM]
        report = json.dumps({**ASK, "tool_input": {}}).encode()
        done = subprocess.run(
            command, input=report, env={**os.environ, **environment}, timeout=60, check=False
        )
        assert done.returncode == 0
    assert info_of("a").attention is None


@pytest.mark.parametrize("said", [b"", b"{", b"x" * (10 << 20), b'{"a":"' + b"y" * (9 << 20)])
def test_A8_the_hook_program_never_fails_the_agent(tmp_path, said):
    for home in (str(tmp_path), "/nowhere"):
        environment = {"HOLDFAST_RUN_ID": "x", "HOLDFAST_HOME": home}
        command = [sys.executable, "-I", "-S", PROGRAM]
        done = subprocess.run(command, input=said, env=environment, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_report_waits_for_a_shim_that_is_late(tmp_path):
    """Who has left before it is heard can't be proven to be of the run: its report is lost."""
    (tmp_path / "runs" / "x").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as shim:
        shim.bind(str(tmp_path / "runs" / "x" / "control"))
        shim.listen()
        environment = {"HOLDFAST_RUN_ID": "x", "HOLDFAST_HOME": str(tmp_path)}
        command = [sys.executable, "-I", "-S", PROGRAM]
        hook = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        assert hook.stdin is not None
        hook.stdin.write(b"{}")
        hook.stdin.close()
        connection, _ = shim.accept()
        with connection:
            assert b'"hook"' in connection.recv(4096)
            connection.settimeout(3.0)  # how late is what is tested; it hangs up when it leaves
            with pytest.raises(TimeoutError):
                connection.recv(4096)
            connection.sendall(b'{"ok":true}\n')
            assert hook.wait(60) == 0


def test_A8_a_long_question_is_shown_whole(holdfast, talker):
    start_talk(holdfast, talker)
    say(holdfast, f"ask true {'x' * 3000}")
    (question,) = asked()
    assert len(question["text"]) > 3000
    say(holdfast, "y")
    _is_well(holdfast)
