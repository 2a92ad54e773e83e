"""W1-W4 as tables: the decision is pure, so every tree can be written down."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.workload.decision import resolve
from holdfast.process.workload.finder import STAGES, WorkloadFinder
from holdfast.process.workload.programs import (
    Program,
    interpreter,
    is_called,
    label,
    script_line,
    shell_code,
    wrapper_of,
)
from holdfast.process.workload.resolution import Resolution, ResolutionKind, Sought
from holdfast.wrappers import WRAPPERS

REAPER = 1
ROOT = 10
LOG, PIPE = (8, 100), (9, 200)


def identity(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, 100 + pid, 1000 + pid, 1, "b" * 32, "h" * 8)


def program(
    pid: int,
    ppid: int,
    line: str | tuple[str, ...],
    *,
    exe: str | None = "",
    comm: str | None = None,
    age: float | None = 60.0,
    cpu: float = 0.0,
    stdout: tuple[int, int] | None = LOG,
    image: int | None = None,
) -> Program:
    words = tuple(line.split()) if isinstance(line, str) else line
    first = words[0].rsplit("/", 1)[-1].lstrip("-") if words else "?"
    path = f"/usr/bin/{first}" if exe == "" else exe
    name = comm or first[:15]
    return Program(
        identity(pid),
        ppid,
        name,
        ProcessState.SLEEPING,
        path,
        words,
        cpu,
        age,
        stdout,
        pid * 16 + 4096 if image is None else image,
    )


def shell(pid: int, ppid: int, code: str, name: str = "sh", **more: object) -> Program:
    return program(pid, ppid, (name, "-c", code), exe="/usr/bin/dash", **more)  # type: ignore[arg-type]


def found(programs: list[Program], **options: object) -> Resolution:
    return resolve(identity(ROOT), programs, **options)  # type: ignore[arg-type]


def test_a_program_that_is_no_wrapper_is_the_workload_itself():
    answer = found([program(10, 1, "python train.py"), program(11, 10, "python worker.py")])
    assert answer.kind is ResolutionKind.DIRECT
    assert answer.workload is not None
    assert answer.workload.identity.pid == 10
    assert answer.wrappers == ()


@pytest.mark.parametrize(
    "wrapper",
    [
        "script -qefc python_train /dev/null",
        "timeout 60 python train.py",
        "time python train.py",
        "flock /tmp/lock python train.py",
        "strace -f python train.py",
        "sudo -u me python train.py",
        "doas python train.py",
        "su me -c python",
        "uv run train.py",
        "/home/me/.local/bin/uv --quiet run python train.py",
        "uvx tool",
        "node /usr/lib/node_modules/npm/bin/npx-cli.js tool",
        "node /usr/bin/npx tool",
        "node /usr/bin/npm exec tool",
        "npm run start",
        "bun x tool",
        "python3.11 /usr/bin/pipx run tool",
        "unshare -f python train.py",
        "firejail python train.py",
        "xvfb-run python train.py",
        "tini -- python train.py",
    ],
)
def test_W2_a_wrapper_that_waits_is_passed(wrapper):
    answer = found([program(10, 1, wrapper), program(11, 10, "python train.py")])
    assert answer.kind is ResolutionKind.RESOLVED, answer.why
    assert answer.workload is not None
    assert answer.workload.identity.pid == 11
    assert [w.identity.pid for w in answer.wrappers] == [10]


@pytest.mark.parametrize("name", ["env", "nice", "ionice", "stdbuf", "nohup", "chrt", "taskset"])
def test_W2_a_wrapper_that_becomes_its_program_is_pending_until_the_exec(name):
    before = found([program(10, 1, f"{name} python train.py")])
    assert (before.kind, before.pending, before.has_subject) == (
        ResolutionKind.UNRESOLVED,
        True,
        False,
    )
    after = found([program(10, 1, "python train.py")])
    assert after.kind is ResolutionKind.DIRECT


def test_W2_two_wrappers_deep_in_each_order():
    for outer, inner in [
        ("timeout 9 sh -c x", ("sh", "-c", "python train.py; true")),
        ("script -qefc x", ("bash", "-lc", "python train.py; true")),
        ("sudo timeout 9", ("timeout", "9", "python", "train.py")),
    ]:
        answer = found(
            [
                program(10, 1, outer),
                program(11, 10, inner),
                program(12, 11, "python train.py", age=0.01),
            ]
        )
        assert answer.workload is not None, answer.why
        assert answer.workload.identity.pid == 12
        assert [w.identity.pid for w in answer.wrappers] == [10, 11]


def test_npm_sets_its_title_over_its_command_line():
    title = program(10, 1, ("npm exec tool", "", "", ""), exe="/usr/bin/node", comm="npm exec tool")
    bare = program(10, 1, ("npm", "", ""), exe="/usr/bin/node", comm="npm")
    assert found([bare]).pending  # as it is while npm starts
    tree = [title, shell(11, 10, "tool"), program(12, 11, "node /x/.bin/tool", age=5)]
    answer = found(tree)
    assert answer.workload is not None, answer.why
    assert label(answer.workload) == "tool"
    assert found(tree, expected="node").workload == answer.workload


# Shells.


def test_a_shell_that_runs_a_file_is_the_workload():
    for line in ("bash script.sh", "bash -l script.sh", "sh", "/bin/sh -e /home/me/agent"):
        answer = found([program(10, 1, line), program(11, 10, "make all")])
        assert answer.kind is ResolutionKind.DIRECT, line


def test_W1_a_child_of_sh_c_is_the_workload_once_its_text_names_it():
    tree = [shell(10, 1, "python train.py; true"), program(11, 10, "python train.py", age=0.01)]
    answer = found(tree)
    assert answer.workload is not None
    assert answer.workload.identity.pid == 11


def test_a_login_profiles_helpers_are_not_the_workload():
    login = program(10, 1, ("bash", "-lc", "python train.py; true"))
    assert found([login, program(11, 10, "dircolors -b", age=0.01)]).pending
    assert found([login, program(11, 10, "bash /opt/pyenv init", age=3)]).pending
    assert found([login, program(11, 10, "bash /opt/pyenv init", age=6)]).workload is not None
    assert found([login, program(11, 10, "python train.py", age=0.01)]).workload is not None
    plain = program(10, 1, ("bash", "-c", "$AGENT"))
    assert found([plain, program(11, 10, "claude", age=3)]).workload is not None


def test_a_wrappers_own_helper_is_not_the_workload():
    uv = program(10, 1, "uv run --python /usr/bin/python train.py --fast")
    helper = program(11, 10, "python -I -B -c code", age=0.1)
    assert found([uv, helper]).pending
    for line in ("python train.py --fast", "/venv/bin/train.py --fast"):
        assert found([uv, program(12, 10, line, age=0.1)]).workload is not None, line


def test_a_shell_that_starts_several_is_given_time_to_do_so():
    for text in ("python a.py & python b.py", "python a.py | python b.py"):
        tree = [shell(10, 1, text), program(11, 10, "python a.py", age=0.1)]
        assert found(tree).pending, text
    for text in ("python a.py && x", "python a.py || x", "python a.py 2>&1", "python a.py &>log"):
        tree = [shell(10, 1, text), program(11, 10, "python a.py", age=0.1)]
        assert found(tree).workload is not None, text


def test_a_fork_of_an_agent_that_can_not_be_read_at_this_moment_is_not_the_agent():
    half = program(10, 1, (), exe="/usr/bin/python3", comm="claude", age=0.04)
    fork = program(11, 10, "python3 /bin/claude -p hello", comm="claude", age=0.01)
    for options in ({"sought": Sought(("claude",))}, {"expected": "claude"}):
        assert found([half, fork], **options).pending, options
    whole = program(10, 1, "python3 /bin/claude -p hello", comm="claude", age=0.1)
    answer = found([whole, program(11, 10, "sleep 60", age=0.05)], sought=Sought(("claude",)))
    assert answer.workload == whole


def test_a_process_in_the_middle_of_an_exec_is_not_there_yet():
    half = program(11, 10, (), exe="/usr/bin/dash", comm="sh", age=0.01)
    assert found([shell(10, 1, "python a.py; true"), half]).pending
    assert found([program(10, 1, (), exe="/usr/bin/dash", comm="sh", age=0.01)]).pending


def test_a_child_that_the_text_does_not_name_counts_when_it_stays():
    tree = [shell(10, 1, "$AGENT"), program(11, 10, "claude -p x", age=0.2)]
    assert found(tree).pending
    tree[1] = program(11, 10, "claude -p x", age=1.5)
    assert found(tree).workload is not None


def test_a_fork_that_has_not_execed_is_still_its_parent():
    parent = shell(10, 1, "python train.py; true", image=5000)
    fork = shell(11, 10, "python train.py; true", image=5000, age=0.0)
    answer = found([parent, fork])
    assert answer.pending
    assert answer.workload is None
    below = program(12, 11, "python train.py", age=0.0)
    assert found([parent, fork, below]).workload == below  # a subshell


def test_a_shell_without_children_is_unresolved_until_it_works_itself():
    assert found([shell(10, 1, 'eval "$LOOP"', cpu=0.3)]).kind is ResolutionKind.UNRESOLVED
    busy = found([shell(10, 1, 'eval "$LOOP"', cpu=1.2)])
    assert busy.kind is ResolutionKind.DIRECT


@pytest.mark.parametrize(
    "words",
    [
        ("script", "-qefc", "python train.py", "/dev/null"),
        ("script", "--command", "python train.py"),
        ("script", "--command=python train.py", "log"),
        ("flock", "/tmp/lock", "-c", "python train.py"),
        ("su", "someone", "-c", "python train.py"),
    ],
)
def test_a_young_program_counts_where_the_text_of_its_wrapper_speaks_of_it(words):
    wrapper = program(10, 1, words)
    helper = program(11, 10, "utempter add", age=0.1)
    assert found([wrapper, helper]).pending
    answer = found([wrapper, program(11, 10, "python train.py", age=0.1)])
    assert answer.workload is not None
    assert answer.workload.identity.pid == 11


def test_two_candidates_are_said_and_not_chosen_from():
    tree = [shell(10, 1, "a.py & b.py"), program(11, 10, "python a.py"), program(12, 10, "node b")]
    answer = found(tree)
    assert answer.kind is ResolutionKind.UNRESOLVED
    assert [p.identity.pid for p in answer.candidates] == [11, 12]
    assert "a.py 11" in answer.why
    assert "b 12" in answer.why
    assert answer.workload is None


def test_a_filter_behind_a_pipe_is_no_candidate():
    tree = [shell(10, 1, "train | tee log"), program(11, 10, "train"), program(12, 10, "tee log")]
    answer = found(tree)
    assert answer.workload is not None
    assert answer.workload.comm == "train"


# Names.


def test_W3_a_named_workload_that_never_appears_is_unresolved_whatever_there_is():
    tree = [shell(10, 1, "sleep 60; true"), program(11, 10, "sleep 60")]
    answer = found(tree, expected="claude")
    assert answer.kind is ResolutionKind.UNRESOLVED
    assert not answer.has_subject
    assert "claude" in answer.why
    assert "sleep 11" in answer.why


@pytest.mark.parametrize("name", ["python", "python3.11", "train.py", "train"])
def test_a_script_is_known_by_its_own_and_its_interpreters_name(name):
    tree = [shell(10, 1, "x; true"), program(11, 10, "python3.11 -u -W ignore ./a/train.py -x 1")]
    answer = found(tree, expected=name)
    assert answer.workload is not None, answer.why
    assert answer.outlives_root


def test_a_long_name_is_known_by_the_15_bytes_that_the_kernel_keeps():
    long = program(10, 1, "x", comm="my-very-long-ag", exe=None)
    assert is_called(long, "my-very-long-agent-name")
    assert is_called(long, "my-very-long-ag")
    assert not is_called(long, "my-very-long-a")


def test_the_topmost_of_its_name_is_meant_and_forked_workers_are_its_own():
    tree = [
        shell(10, 1, "python train.py; true"),
        program(11, 10, "python train.py", image=7000),
        program(12, 11, "python train.py", image=7000),
    ]
    answer = found(tree, expected="python")
    assert answer.workload is not None
    assert answer.workload.identity.pid == 11


def test_two_of_the_name_side_by_side_are_ambiguous():
    tree = [shell(10, 1, "x"), program(11, 10, "python a.py"), program(12, 10, "python b.py")]
    answer = found(tree, expected="python")
    assert answer.kind is ResolutionKind.UNRESOLVED
    assert len(answer.candidates) == 2


def test_whoever_says_node_does_not_mean_npx():
    tree = [program(10, 1, "node /usr/bin/npx tool"), program(11, 10, "node /x/.bin/tool")]
    answer = found(tree, expected="node")
    assert answer.workload is not None
    assert answer.workload.identity.pid == 11
    assert not found(tree[:1], expected="node").has_subject


def test_the_root_may_be_named_even_when_it_is_a_wrapper():
    assert (
        found([shell(10, 1, "a; b"), program(11, 10, "a")], expected="sh").kind
        is ResolutionKind.DIRECT
    )


def test_profile_names_are_a_hint_and_the_structure_is_the_fallback():
    tree = [shell(10, 1, "my-tool; true"), program(11, 10, "my-tool")]
    answer = found(tree, sought=Sought(("claude",)))
    assert answer.workload is not None
    assert answer.workload.comm == "my-tool"


# JavaScript launchers, as the real agents are (trees seen with codex 0.166 and gemini 0.61).

CODEX = program(10, 1, "node /c/node_modules/.bin/codex exec hi", exe="/usr/bin/node")
NATIVE = program(11, 10, "/c/vendor/bin/codex exec hi", exe="/c/vendor/bin/codex", age=59.9)
GEMINI = program(10, 1, "node /c/.bin/gemini -p hi", exe="/usr/bin/node")
AGAIN = program(
    11, 10, "/usr/bin/node --max-old-space-size=12051 /c/.bin/gemini -p hi", exe="/usr/bin/node"
)


@pytest.mark.parametrize("options", [{}, {"sought": Sought(("codex",))}, {"expected": "codex"}])
def test_W2_codex_is_the_native_child_of_node(options):
    answer = found([CODEX, NATIVE], **options)
    assert answer.workload == NATIVE
    assert answer.wrappers == (CODEX,)


@pytest.mark.parametrize("options", [{}, {"sought": Sought(("gemini",))}, {"expected": "gemini"}])
def test_W2_gemini_is_the_second_node_of_the_same_script(options):
    answer = found([GEMINI, AGAIN], **options)
    assert answer.workload == AGAIN
    assert answer.wrappers == (GEMINI,)


def test_W2_a_node_shim_hands_its_stdout_to_the_child_that_it_is_for():
    shim = program(10, 1, "node shim.js", age=5)
    assert found([shim, program(11, 10, "python train.py", age=4.9)]).workload is not None
    answer = found([shim, program(11, 10, "python train.py", age=4.9)])
    assert answer.kind is ResolutionKind.RESOLVED


def test_a_tool_that_a_node_program_reads_from_is_not_its_workload():
    app = program(10, 1, "node server.js", age=5)
    for tool in (
        program(11, 10, "ffmpeg", age=4.9, stdout=PIPE),
        program(11, 10, "ffmpeg", age=4.9, stdout=None),
    ):
        assert found([app, tool]).kind is ResolutionKind.DIRECT
    late = program(10, 1, "node server.js", age=90)
    assert found([late, program(11, 10, "ffmpeg", age=1)]).kind is ResolutionKind.DIRECT
    two = [program(11, 10, "a", age=4.9), program(12, 10, "b", age=4.9)]
    assert found([app, *two]).kind is ResolutionKind.DIRECT


def test_a_young_node_program_may_yet_turn_out_a_launcher():
    young = program(10, 1, "node /c/.bin/codex exec hi", age=0.2)
    assert found([young]).pending
    assert found([young], sought=Sought(("codex",))).pending
    assert found([young.replace(age_seconds=1.5)]).kind is ResolutionKind.DIRECT
    assert found([program(10, 1, ("node", "-e", "code"), age=0.1)]).kind is ResolutionKind.DIRECT


# The root has exited.


@pytest.mark.parametrize("text", ["python train.py &", "setsid python train.py & exit 5"])
def test_L11_what_a_shell_leaves_is_never_its_workload(text):
    left = program(11, REAPER, "python train.py")
    answer = found([left], command=("sh", "-c", text))
    assert (answer.kind, answer.workload) == (ResolutionKind.UNRESOLVED, None)
    assert not answer.outlives_root


def test_L11_what_a_shell_leaves_is_its_workload_only_when_named():
    left = program(11, REAPER, "python train.py")
    command = ("sh", "-c", "python train.py &")
    assert found([left], command=command).workload is None
    named = found([left], command=command, expected="train.py")
    assert named.workload == left
    assert named.outlives_root


def test_W4_workers_of_a_root_that_exits_first_are_leftovers():
    worker = program(11, REAPER, "python train.py")
    for options in ({}, {"expected": "python"}, {"sought": Sought(("train.py",))}):
        answer = found([worker], command=("python", "train.py"), **options)
        assert answer.kind is ResolutionKind.DIRECT
        assert answer.workload is not None
        assert answer.workload.identity.pid == ROOT
        assert not answer.outlives_root


# How interpreters spell their command lines.


@pytest.mark.parametrize(
    ("line", "family", "script"),
    [
        ("python3 -m http.server 80", "python", ("http.server", "80")),
        ("python3.12 -X dev -u x.py a", "python", ("x.py", "a")),
        ("python -", "python", ()),
        ("node --require ./r.js --inspect app.js", "node", ("app.js",)),
        ("bun run app.ts", "bun", ("app.ts",)),
        ("deno run -A app.ts", "deno", ("app.ts",)),
        ("ruby -I lib app.rb", "ruby", ("app.rb",)),
        ("perl -w app.pl", "perl", ("app.pl",)),
        ("bash --norc app.sh 1", "bash", ("app.sh", "1")),
        ("bash -o pipefail -c x", "bash", ()),
        ("claude -p x", None, ()),
    ],
)
def test_the_script_of_an_interpreter(line, family, script):
    it = program(1, 0, line)
    assert interpreter(it) == family
    assert script_line(it) == script


def test_the_text_of_a_shell():
    assert shell_code(program(1, 0, ("bash", "-o", "pipefail", "-lc", "a b"))) == "a b"
    assert shell_code(program(1, 0, ("-bash", "-c", "a"), exe="/bin/bash")) == "a"
    assert shell_code(program(1, 0, ("busybox", "sh", "-c", "a"), exe="/bin/busybox")) == "a"
    assert shell_code(program(1, 0, ("sh", "-c", "a"), exe="/bin/busybox")) == "a"
    assert shell_code(program(1, 0, "bash x.sh -c")) is None
    assert shell_code(program(1, 0, "script -c a")) is None


def test_a_replaced_program_is_still_known_by_its_path():
    assert is_called(program(1, 0, "x", exe="/opt/claude (deleted)", comm="y"), "claude")


def test_a_script_of_the_users_own_may_have_a_wrappers_name():
    assert wrapper_of(program(1, 0, "bash ./time", comm="time")) is None
    assert wrapper_of(program(1, 0, "python timeout.py", comm="timeout.py")) is None


def test_a_process_that_can_not_be_read_is_judged_by_its_name():
    hidden = Program(identity(10), 1, "timeout", ProcessState.SLEEPING)
    assert wrapper_of(hidden) is WRAPPERS["timeout"]
    assert found([hidden, program(11, 10, "python x.py")]).kind is ResolutionKind.RESOLVED


# Over time.


class Stage:
    """Plays a tree to a finder: members are what a walk would give."""

    def __init__(self, **options: object) -> None:
        self.programs: dict[ProcessIdentity, Program] = {}
        self.finder = WorkloadFinder(
            identity(ROOT),
            read=lambda member: self.programs.get(member.identity),
            **options,  # type: ignore[arg-type]
        )

    def shows(self, *programs: Program, now: float = 0.0) -> Resolution:
        self.programs = {p.identity: p for p in programs}
        members: Any = programs  # which have what a finder asks of a member
        return self.finder.look(members, now)


def test_W4_exec_keeps_the_identity_and_is_a_fact():
    stage = Stage()
    stage.shows(program(10, 1, "python a.py", image=5000))
    after = stage.shows(program(10, 1, "ruby b.rb", image=6000))
    assert after.kind is ResolutionKind.DIRECT
    [fact] = stage.finder.take_execs()
    assert (fact.identity, fact.was, fact.comm) == (identity(10), "python", "ruby")
    assert stage.finder.take_execs() == []


def test_a_name_that_a_process_gives_itself_is_no_exec():
    stage = Stage()
    stage.shows(program(10, 1, "python a.py", image=5000))
    stage.shows(program(10, 1, "python a.py", comm="trainer", image=5000))
    assert stage.finder.take_execs() == []


def test_a_workload_that_becomes_a_wrapper_is_looked_behind():
    stage = Stage()
    stage.shows(program(10, 1, "./start", image=5000))
    after = stage.shows(
        program(10, 1, "timeout 9 python x.py", image=6000), program(11, 10, "python x.py")
    )
    assert after.kind is ResolutionKind.RESOLVED
    assert after.workload is not None
    assert after.workload.identity.pid == 11


def test_a_found_workload_stays_found_beside_a_second_program():
    stage = Stage()
    root, work = shell(10, 1, "python a.py & wait"), program(11, 10, "python a.py")
    stage.shows(root, work)
    after = stage.shows(root, work, program(12, 10, "python b.py"))
    assert after.workload == work


def test_an_ended_workload_stays_what_is_known_until_another_comes():
    stage = Stage()
    root = shell(10, 1, 'eval "$BOTH"')
    one = stage.shows(root, program(11, 10, "first"))
    assert stage.shows(root).says_the_same(one)
    two = stage.shows(root, program(12, 10, "second"))
    assert two.workload is not None
    assert two.workload.comm == "second"


def test_W4_what_an_ended_workload_left_is_not_another_workload():
    stage = Stage(expected="python")
    root = shell(10, 1, "python a.py; sleep 9")
    one = stage.shows(root, program(11, 10, "python a.py"), program(12, 11, "python a.py"))
    after = stage.shows(root, program(12, REAPER, "python a.py"), program(13, 10, "sleep 9"))
    assert after.says_the_same(one)


def test_a_shell_that_runs_one_program_after_another_is_a_script():
    stage = Stage()
    root = shell(10, 1, 'eval "$LOOP"')
    for pid in range(11, 11 + STAGES):
        stage.shows(root, program(pid, 10, "work x"))
        stage.shows(root)
    after = stage.shows(root, program(99, 10, "work x"))
    assert after.kind is ResolutionKind.DIRECT
    assert after.workload is not None
    assert after.workload.identity.pid == ROOT


def test_a_launcher_that_goes_on_without_its_child_was_none():
    stage = Stage()
    root, child = program(10, 1, "node build.js", age=5), program(11, 10, "tsc", age=4.9)
    assert stage.shows(root, child, now=0).workload == child
    assert stage.shows(root, now=1).workload == child  # it may be about to exit
    after = stage.shows(root, now=4)
    assert after.kind is ResolutionKind.DIRECT


def test_a_launcher_whose_words_were_hidden_is_looked_behind_once_they_show():
    """npm writes its title over its argv, which is empty meanwhile: it may be anything then."""
    stage = Stage()
    launcher = program(10, 1, "node /usr/bin/npx tool", age=5)
    work = program(11, 10, "python hog.py", age=1)
    assert stage.shows(launcher.replace(cmdline=()), work).workload is None
    after = stage.shows(launcher, work)
    assert (after.kind, after.workload) == (ResolutionKind.RESOLVED, work)


def test_a_node_program_that_turns_out_a_launcher_is_one():
    stage = Stage(sought=Sought(("codex",)))
    old = CODEX.replace(age_seconds=3.0)
    assert stage.shows(old).kind is ResolutionKind.DIRECT
    assert stage.shows(old, NATIVE.replace(age_seconds=0.1)).kind is ResolutionKind.RESOLVED


def test_L11_the_heir_of_a_root_is_searched_as_the_root_was():
    stage = Stage(command=("./start",))
    former = program(10, 1, "setsid sh -c 'python train.py; true'", image=6000)
    stage.shows(former)
    stage.finder.take_root(identity(11))
    heir = shell(11, REAPER, 'eval "$BOTH"')
    stage.shows(heir)
    after = stage.shows(heir, program(12, 11, "python train.py"))
    assert (after.kind, after.workload) == (
        ResolutionKind.RESOLVED,
        program(12, 11, "python train.py"),
    )
    assert after.wrappers == (former, heir)
    after = stage.shows(heir, program(13, 11, "python test.py"), now=1.0)
    assert after.workload == program(13, 11, "python test.py")
    assert stage.shows(now=2.0) == after


def test_L11_an_heir_that_nobody_saw_alive_is_unresolved():
    stage = Stage(command=("setsid", "train.py"))
    stage.finder.take_root(identity(11))
    after = stage.shows(program(12, REAPER, "sleep 300"))
    assert (after.kind, after.workload) == (ResolutionKind.UNRESOLVED, None)
    assert [wrapper.comm for wrapper in after.wrappers] == ["setsid"]


def test_a_script_that_a_login_profile_runs_is_not_the_workload():
    shim = program(10, 1, ("bash", "-lc", "exec python train.py"), age=0.1)
    profile = ("bash", "--norc", "-ec", "for i in 1 2; do echo $i; done")
    answer = found([shim, program(11, 10, profile, age=0.05)])
    assert answer.workload is None
    assert answer.pending
