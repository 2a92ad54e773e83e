"""The real programs by themselves, without network: facts in their profiles, as they are today.

What a run shows as well (failures, quotas, resumed sessions) is in test_holdfast_*.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.agents.facts import (
    CompletionProven,
    ResultRead,
    SessionFound,
    UsageRead,
)
from holdfast.agents.loader import load_profile
from holdfast.agents.recognition import locate, strip_environment
from holdfast.agents.recognition_table import SESSION_VARIABLES
from holdfast.agents.stream import StreamReader
from holdfast.agents.transcript import TranscriptReader, find_transcript
from tests.agents.lab import AGENTS, UNATTENDED, descendants, kill_tree
from tests.agents.recordings import of_kind
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from holdfast.agents.facts import Fact

pytestmark = pytest.mark.agents
every_agent = pytest.mark.parametrize("agent", AGENTS)


def _read(argv: list[str], stdout: bytes) -> list[Fact]:
    located = locate(argv)
    assert located is not None
    reader = StreamReader(load_profile(located.agent), located.arguments)
    return [fact for line in stdout.splitlines() for fact in reader.feed(line, 0)]


@every_agent
def test_C3_a_turn_is_read_from_stdout_and_transcript(lab, agent):
    argv, env = lab.command(agent, "hi")
    done = lab.run(argv, env)
    facts = _read(argv, done.stdout)
    assert done.returncode == 0
    (session,) = of_kind(facts, SessionFound)
    (proven,) = of_kind(facts, CompletionProven)
    assert not proven.is_error
    assert of_kind(facts, ResultRead) == [ResultRead("hello from the stub", is_error=False)]
    usage = of_kind(facts, UsageRead)[-1]
    assert (usage.tokens_in, usage.tokens_out) == (5, 7)

    profile = load_profile(agent)
    path = find_transcript(profile, session.id, cwd=str(lab.work_dir), env=env)
    assert path is not None
    if profile.transcript is not None and profile.transcript.completion:
        reader = TranscriptReader(profile, path, argv[1:], is_new=True)
        seen = [*reader.poll(0.0), *reader.poll(60.0)]
        (proven,) = of_kind(seen, CompletionProven)
        assert not proven.is_error


@every_agent
def test_L7_what_an_agent_hands_down_about_its_session_is_known(lab, agent):
    """Every variable that holds the session's id, or that the agent added to name itself."""
    argv, env = lab.command(agent, "hi [[run: env -0 > seen.env]]", options=UNATTENDED[agent])
    done = lab.run(argv, env)
    (session,) = of_kind(_read(argv, done.stdout), SessionFound)
    seen = (lab.work_dir / "seen.env").read_text().split("\0")
    inner = dict(line.split("=", 1) for line in seen if "=" in line)
    holding = {name for name, value in inner.items() if session.id in value}
    assert holding <= SESSION_VARIABLES
    own = {name for name in set(inner) - set(env) if re.match(r"CLAUDE|GEMINI_CLI|AI_AGENT", name)}
    assert own <= SESSION_VARIABLES
    assert session.id not in "".join(strip_environment(inner).values())


@every_agent
def test_W2_the_workload_is_told_from_its_wrappers(lab, agent):
    argv, env = lab.command(agent, "hi [[hang]]")
    with lab.start(argv, env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lab.requests, timeout=60, why="the agent asks the model")
            chain = _matching_chain(agent, process.pid)
        finally:
            kill_tree(process.pid)
    assert [comm for _, comm in chain] == {
        "claude": ["claude"],
        "codex": ["codex"],
        "gemini": ["node", "node"],
    }[agent]
    assert (chain[0][0] == process.pid) is (agent != "codex")
    assert load_profile(agent).workload.relaunches is (len(chain) > 1)


def _matching_chain(agent: str, root: int) -> list[tuple[int, str]]:
    """The processes that the profile takes for the agent, from the root down."""
    rule = load_profile(agent).workload
    chain = []
    for pid in [root, *descendants(root)]:
        try:
            comm = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
            cmdline = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:  # a short-lived helper of the agent
            continue
        fits = rule.cmdline is None or rule.cmdline.search(" ".join(cmdline))
        if comm in rule.comm and fits:
            chain.append((pid, comm))
    return chain


@pytest.mark.parametrize("name", ["a b", "x.y_z+é", "~tilde", "long" * 40])
def test_the_name_of_claudes_project_directory(lab, name):
    directory = lab.work_dir / name
    directory.mkdir()
    argv, env = lab.command("claude", "hi")
    done = subprocess.run(
        lab.inside(argv), env=env, cwd=directory, capture_output=True, stdin=subprocess.DEVNULL
    )
    (session,) = of_kind(_read(argv, done.stdout), SessionFound)
    assert find_transcript(load_profile("claude"), session.id, cwd=str(directory), env=env)


def test_many_turns_of_claude_are_no_end_until_stdin_ends(lab):
    argv, env = lab.command("claude", "", options=("--input-format", "stream-json"))
    argv.remove("")
    message = {"type": "user", "message": {"role": "user", "content": "hi"}}
    with subprocess.Popen(
        lab.inside(argv), env=env, cwd=lab.work_dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines: list[bytes] = []
        for _ in range(2):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            while not lines or b'"type":"result"' not in lines[-1]:
                lines.append(process.stdout.readline())
            lines.append(b"")
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    facts = _read(argv, b"\n".join(lines))
    assert of_kind(facts, CompletionProven) == []
    assert of_kind(facts, UsageRead)[-1].tokens_in == 10


def test_sigterm_to_gemini_ends_only_the_inner_process(lab):
    """The outer one neither ends nor passes it on; the inner one ends with exit code 0."""
    argv, env = lab.command("gemini", "hi [[hang]]")
    with lab.start(argv, env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lab.requests, timeout=60, why="gemini asks the model")
            (inner,) = descendants(process.pid)
            process.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=3)
            subprocess.run(["kill", "-TERM", str(inner)], check=True)
            assert process.wait(timeout=30) == 0
        finally:
            kill_tree(process.pid)
