"""Resolution and stat lines, whatever the tree and whatever the names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.workload.decision import resolve
from holdfast.process.workload.programs import Program, shell_code, wrapper_of
from holdfast.process.workload.resolution import ResolutionKind, Sought

ROOT = 2
LINES = (
    ("sh", "-c", "python a.py; true"),
    ("sh", "-c", "a & b | c"),
    ("bash", "-lc", "claude -p x"),
    ("bash", "script.sh"),
    ("timeout", "9", "python", "a.py"),
    ("script", "-qefc", "x"),
    ("setsid", "python", "a.py"),
    ("env", "x"),
    ("node", "/x/.bin/codex", "exec"),
    ("node", "--flag", "/x/.bin/codex", "exec"),
    ("/x/codex", "exec"),
    ("npm exec tool", "", ""),
    ("python", "a.py"),
    ("python", "-c", "x"),
    ("tee", "log"),
    (),
)


@st.composite
def trees(draw: st.DrawFn) -> list[Program]:
    """Processes below a reaper (1): parents come earlier, or are not there any more."""
    programs = []
    for pid in range(ROOT, ROOT + draw(st.integers(0, 7))):
        line = draw(st.sampled_from(LINES))
        name = line[0].rsplit("/", 1)[-1] if line else draw(st.sampled_from(["sh", "python", "x"]))
        programs.append(
            Program(
                ProcessIdentity(pid, pid, pid, 1, "b" * 32, "h" * 8),
                draw(st.integers(1, pid - 1)) if pid > ROOT else 1,
                name[:15],
                draw(st.sampled_from([ProcessState.SLEEPING, ProcessState.DISK_SLEEP])),
                draw(st.sampled_from([f"/usr/bin/{name}", None])),
                line,
                draw(st.sampled_from([0.0, 5.0])),
                draw(st.sampled_from([None, 0.1, 30.0])),
                draw(st.sampled_from([None, (1, 1), (1, 2)])),
                draw(st.sampled_from([None, pid, 7])),
            )
        )
    return programs


NAMES = st.sampled_from([None, "python", "a.py", "codex", "nobody"])


@given(trees(), NAMES, st.permutations(range(7)), st.sampled_from(LINES))
def test_the_order_of_the_members_does_not_matter(programs, expected, order, command):
    root = ProcessIdentity(ROOT, ROOT, ROOT, 1, "b" * 32, "h" * 8)
    shuffled = [programs[i] for i in order if i < len(programs)]
    one = resolve(root, programs, expected=expected, command=command)
    other = resolve(root, shuffled, expected=expected, command=command)
    assert one.says_the_same(other)


@given(trees(), st.sampled_from([(), ("codex",)]), st.sampled_from(LINES))
def test_no_wrapper_is_ever_taken_for_the_workload(programs, profile_names, command):
    root = ProcessIdentity(ROOT, ROOT, ROOT, 1, "b" * 32, "h" * 8)
    found = resolve(
        root, programs, sought=Sought(profile_names) if profile_names else None, command=command
    )
    if found.kind is ResolutionKind.UNRESOLVED:
        assert found.workload is None
        return
    workload = found.workload
    assert workload is not None
    worked_itself = shell_code(workload) is not None and (workload.cpu_seconds or 0) >= 1
    assert wrapper_of(workload) is None or worked_itself
    assert workload not in found.wrappers
    assert (found.kind is ResolutionKind.DIRECT) is (workload.identity == root)


@given(trees(), st.sampled_from(["python", "a.py", "nobody"]))
def test_W3_a_named_workload_has_that_name_or_there_is_none(programs, expected):
    root = ProcessIdentity(ROOT, ROOT, ROOT, 1, "b" * 32, "h" * 8)
    found = resolve(root, programs, expected=expected, command=("sh", "-c", "x"))
    if found.workload is not None:
        spoken = " ".join((found.workload.comm, found.workload.exe or "", *found.workload.cmdline))
        assert expected in spoken
