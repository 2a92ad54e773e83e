"""The workload behind wrappers: a pure decision over one snapshot of the tree.

By name where somebody gave one, else by structure: down from the root through known wrappers to
the one program that they run. Two candidates on one level are reported; neither is chosen; what is
not found is `unresolved`, and a wrapper's figures are never taken for the workload's.
The rules with their reasons: docs/workload.md. `process/workload/finder.py` asks again over time.
"""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from holdfast.process.workload.programs import (
    YOUNG_SECONDS,
    Program,
    base,
    interpreter,
    is_called,
    is_login_shell,
    is_shell,
    is_unclear,
    label,
    names,
    script_line,
    stem,
    text_of,
    words,
    wrapper_of,
)
from holdfast.process.workload.resolution import DEEPEST, Resolution, ResolutionKind, Scene, Sought
from holdfast.wrappers import JAVASCRIPT, SERVANTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.wrappers import Wrapper

PROFILE_SECONDS = 5.0  # helpers of a login profile are slow: they look for versions of things
LAUNCHED_WITHIN_SECONDS = 10.0  # what it starts later is a tool of its own
OWN_WORK_SECONDS = 1.0  # CPU time of a shell that runs loops itself; a waiting one uses a few ms


def resolve(
    root: ProcessIdentity,
    programs: Iterable[Program],
    *,
    expected: str | None = None,
    sought: Sought | None = None,
    command: tuple[str, ...] = (),
    last_root: Program | None = None,
    own_workers: frozenset[ProcessIdentity] = frozenset(),
    orphans_count: bool = True,
) -> Resolution:
    """Find the workload in one snapshot.

    `expected` is the user's word and decides alone. `sought` is what an agent's profile says: it
    is tried first, then the structure. `command` and `last_root` tell what the root was when it
    has exited already. `own_workers` were found to do the work themselves, though they look like
    wrappers.
    """
    scene = Scene(
        root,
        programs,
        last_root=last_root,
        command=command,
        own_workers=own_workers,
        orphans_count=orphans_count,
    )
    if expected is not None:
        return _by_name(scene, Sought((expected,))) or _not_found(scene, expected)
    if sought is None:
        return _by_structure(scene)
    named = _by_name(scene, sought)
    if named is not None:
        return named
    found = _by_structure(scene)
    if found.workload is not None and is_shell(wrapper_of(found.workload)):
        # A script that starts the agent again and again is not meant: the agent is.
        why = f"{found.workload} has not started {' or '.join(sought.names)} yet"
        return _pending((*found.wrappers, found.workload), why)
    return found


# By name.


def _by_name(scene: Scene, sought: Sought) -> Resolution | None:
    quoted = " or ".join(sought.names)
    if not scene.root_lives and _is_meant(scene.root, sought):
        if sought.relaunches:
            why = f"{scene.root} starts itself again; it ended before that one was seen"
            return Resolution(ResolutionKind.UNRESOLVED, None, (scene.root,), why)
        return _direct(scene.root, f"the root was {quoted}; it has exited")
    tops = _topmost(scene, [p for p in scene.by_pid.values() if _is_meant(p, sought)])
    if len(tops) > 1:
        above = {p.identity.pid: p for top in tops for p in scene.above(top)}
        wrappers = tuple(above[pid] for pid in sorted(above))
        return _ambiguous(wrappers, tops, f"more than one {quoted}")
    if not tops:
        return None
    chain = scene.above(tops[0])
    unclear = next(filter(is_unclear, chain), None)
    if unclear is not None:  # it may be the one, and this its child before its own exec
        return _pending(chain, f"{unclear} can't be read at this moment")
    return _below_launchers(scene, tops[0], sought, f"it is called {quoted}")


def _is_meant(program: Program, sought: Sought) -> bool:
    if is_unclear(program) or not any(is_called(program, name) for name in sought.names):
        return False
    if sought.fits is not None and not sought.fits(" ".join(program.cmdline)):
        return False
    wrapper = wrapper_of(program)
    if wrapper is None or is_shell(wrapper):
        return True
    # npx is a node program, but `--workload node` does not mean npx.
    script = script_line(program)
    return not script or base(script[0]) in sought.names


def _topmost(scene: Scene, matching: list[Program]) -> list[Program]:
    """Those without another match above them; a wrapper only where nothing else matches."""
    matching = [p for p in matching if wrapper_of(p) is None] or matching
    tops = [p for p in matching if not any(above in matching for above in scene.above(p))]
    below_root = [p for p in tops if scene.is_below_root(p)]
    return below_root if below_root or not scene.orphans_count else tops


def _not_found(scene: Scene, quoted: str) -> Resolution:
    wrappers = (scene.root,) if scene.root_lives else ()
    members = ", ".join(sorted(map(str, scene.by_pid.values()))[:8]) or "nothing"
    why = f"no process is called {quoted}; the tree has {members}"
    return Resolution(ResolutionKind.UNRESOLVED, None, wrappers, why, pending=bool(scene.by_pid))


def _below_launchers(scene: Scene, top: Program, sought: Sought, why: str) -> Resolution:
    """Down through programs of the same name that only start the real one (codex, gemini)."""
    wrappers = list(scene.above(top))
    relaunches = sought.relaunches
    while len(wrappers) < DEEPEST:
        children = scene.children(top)
        meant = [child for child in children if _is_meant(child, sought)]
        if len(meant) == 1 and (relaunches or _starts(top, meant[0])):
            wrappers.append(top)
            top, relaunches = meant[0], False
            continue
        if relaunches and _is_younger(top, LAUNCHED_WITHIN_SECONDS):
            return _pending((*wrappers, top), f"{top} starts itself again: that one is meant")
        was_relaunched = sought.relaunches and not relaunches
        if not children and not was_relaunched and _may_yet_launch(top):
            return _pending((*wrappers, top), f"{top} is young, and may only be a launcher")
        break
    return _found(scene, top, tuple(wrappers), why, outlives_root=True)


def _starts(above: Program, child: Program) -> bool:
    """Whether a program is there to start this child of the same name, itself again or native."""
    return _is_relaunch(above, child) or (
        interpreter(above) in JAVASCRIPT and interpreter(child) is None
    )


def _is_relaunch(above: Program, child: Program) -> bool:
    """The same script with the same arguments, under other options of the interpreter."""
    script = script_line(above)
    return (
        bool(script)
        and script == script_line(child)
        and interpreter(above) == interpreter(child)
        and above.cmdline[1:] != child.cmdline[1:]
    )


def _may_yet_launch(program: Program) -> bool:
    young = _is_younger(program, YOUNG_SECONDS)
    return young and interpreter(program) in JAVASCRIPT and bool(script_line(program))


def _is_younger(program: Program, seconds: float) -> bool:
    return program.age_seconds is not None and program.age_seconds < seconds


# By structure.


def _by_structure(scene: Scene) -> Resolution:
    root = scene.root
    if scene.root_lives:
        return _descend(scene, root, ())
    if not root.cmdline and root.exe is None:
        why = "what was started had ended before it could be looked at"
        return Resolution(ResolutionKind.UNRESOLVED, None, (), why)
    does_work = root.identity in scene.own_workers or _is_script(root)
    if does_work or wrapper_of(root) is None:
        return _direct(root, "the root was no wrapper; it has exited")
    why = f"{root} has exited; what a wrapper leaves is its workload only when it is named"
    return Resolution(ResolutionKind.UNRESOLVED, None, (root,), why)


def _descend(scene: Scene, cursor: Program, wrappers: tuple[Program, ...]) -> Resolution:
    while len(wrappers) < DEEPEST:
        if cursor.identity in scene.own_workers or _is_script(cursor):
            return _found(scene, cursor, wrappers, f"{cursor} does the work itself")
        if is_unclear(cursor):
            return _pending((*wrappers, cursor), f"{cursor} can't be read at this moment")
        children = scene.children(cursor)
        wrapper = wrapper_of(cursor)
        if wrapper is None:
            below = _launched(cursor, children)
            if below is None:
                return _end_of_descent(scene, cursor, children, wrappers)
        else:
            stopped, below = _through(scene, cursor, wrapper, children, wrappers)
            if below is None:
                return stopped
        wrappers, cursor = (*wrappers, cursor), below
    return _pending(wrappers, f"more than {DEEPEST} wrappers")


def _is_script(program: Program) -> bool:
    """Whether a `sh -c` is a script, by its text: a loop, several commands, a function."""
    if not is_shell(wrapper_of(program)):
        return False
    from holdfast.process.workload.shell_text import is_script  # few runs have such a shell

    return is_script(program)


def _end_of_descent(
    scene: Scene, cursor: Program, children: list[Program], wrappers: tuple[Program, ...]
) -> Resolution:
    if not children and _may_yet_launch(cursor):
        return _pending((*wrappers, cursor), f"{cursor} is young, and may only be a launcher")
    why = "it is no wrapper" if not wrappers else f"{wrappers[-1]} runs it"
    return _found(scene, cursor, wrappers, why)


def _through(
    scene: Scene,
    cursor: Program,
    wrapper: Wrapper,
    children: list[Program],
    wrappers: tuple[Program, ...],
) -> tuple[Resolution, Program | None]:
    """The one program that a wrapper runs, or the resolution that says why there is none."""
    chain = (*wrappers, cursor)
    if is_shell(wrapper) and not children and (cursor.cpu_seconds or 0.0) >= OWN_WORK_SECONDS:
        return _found(scene, cursor, wrappers, f"{cursor} does the work itself"), None
    children = [child for child in children if _is_settled(child, cursor)]
    if len(children) > 1:
        children = [child for child in children if names(child).isdisjoint(SERVANTS)] or children
    if len(children) > 1:
        return _ambiguous(chain, children, f"{cursor} runs more than one program"), None
    if not children:
        return _pending(chain, f"{cursor} ({wrapper.reason}) has not started a program yet"), None
    return _pending(chain, ""), children[0]


def _is_settled(child: Program, wrapper: Program) -> bool:
    """Whether a wrapper's child is what the wrapper is for.

    They run helpers first: a login profile's, uv's look at an interpreter. So a young child
    counts only if the wrapper's own words say so, or if it is a wrapper of something else: a
    shell that is a script would be the workload itself.
    """
    patience = PROFILE_SECONDS if is_login_shell(wrapper) else YOUNG_SECONDS
    if child.age_seconds is None or child.age_seconds >= patience:
        return True
    if wrapper_of(child) is not None and not _is_script(child):
        return True
    text = text_of(wrapper)
    return _ends_alike(wrapper, child) if text is None else _is_spoken_of(child, text)


def _ends_alike(wrapper: Program, child: Program) -> bool:
    """`timeout 9 CMD ARGS` ends with its child's words; `uv run X` with all but the first."""
    above, below = tuple(map(base, words(wrapper))), tuple(map(base, words(child)))
    return any(above[-k:] == below[-k:] for k in (len(below), len(below) - 1) if k > 0)


def _is_spoken_of(child: Program, text: str) -> bool:
    # Where a shell starts several at once, the first that is seen need not be the only one.
    if _starts_several(text):
        return False
    spoken = {base(word.strip("\"'();&|{}")) for word in text.split()}
    script = script_line(child)
    return bool(spoken & ({base(script[0])} if script else names(child)))


def _starts_several(text: str) -> bool:
    """Whether there is a & b, or a | b; not &&, ||, 2>&1, &>."""
    padded = f" {text} "
    around = zip(padded, padded[1:], padded[2:], strict=False)
    return any(
        sign in "&|" and before not in "&>|" and after not in "&>|"
        for before, sign, after in around
    )


def _launched(above: Program, children: list[Program]) -> Program | None:
    """The child for which a program that is no known wrapper is there; None: it works itself."""
    if len(children) != 1:
        return None
    child = children[0]
    if _is_relaunch(above, child):
        return child
    script = script_line(above)
    if interpreter(above) not in JAVASCRIPT or not script:
        return None
    if interpreter(child) is None and stem(base(script[0])) in names(child):
        return child
    # npm packages put a script before a native program; it hands its own stdout on. Whoever
    # runs a tool reads what the tool prints.
    shares_stdout = above.stdout is not None and above.stdout == child.stdout
    return child if shares_stdout and _came_early(above, child) else None


def _came_early(above: Program, child: Program) -> bool:
    if above.age_seconds is None or child.age_seconds is None:
        return False
    return above.age_seconds - child.age_seconds <= LAUNCHED_WITHIN_SECONDS


# What is said.


def _found(
    scene: Scene,
    workload: Program,
    wrappers: tuple[Program, ...],
    why: str,
    *,
    outlives_root: bool = False,
) -> Resolution:
    if workload.identity == scene.root.identity:
        return _direct(workload, why)
    return Resolution(ResolutionKind.RESOLVED, workload, wrappers, why, outlives_root=outlives_root)


def _direct(root: Program, why: str) -> Resolution:
    return Resolution(ResolutionKind.DIRECT, root, (), why)


def _pending(wrappers: tuple[Program, ...], why: str) -> Resolution:
    return Resolution(ResolutionKind.UNRESOLVED, None, wrappers, why, pending=True)


def _ambiguous(wrappers: tuple[Program, ...], candidates: list[Program], why: str) -> Resolution:
    candidates = sorted(candidates, key=lambda p: p.identity.pid)
    listed = ", ".join(f"{label(p)} {p.identity.pid}" for p in candidates[:8])
    return Resolution(
        ResolutionKind.UNRESOLVED, None, wrappers, f"{why}: {listed}", tuple(candidates), True
    )
