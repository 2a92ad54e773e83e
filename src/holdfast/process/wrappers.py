"""The programs that stand between a supervisor and the workload: one table, with reasons.

Data and its lookup. `process/workload.py` decides what to do about them.
"""

from __future__ import annotations

from holdfast.process.programs import (
    MULTI_CALL,
    Program,
    base,
    interpreter,
    script_line,
    shell_code,
    stem,
    words,
)
from holdfast.record import Record


class Wrapper(Record):
    """One known wrapper."""

    reason: str  # how it starts its program
    verbs: tuple[str, ...] = ()  # a wrapper only with one of these words; () means always
    leaves: bool = False  # it may fork, exit and leave its program running, by design
    takes_text: bool = False  # `-c TEXT` is a shell's text, as in `script -qefc TEXT`


_EXECS = Wrapper("becomes its program: seen only until the exec")
_WAITS = Wrapper("starts its program as a child and waits for it")
_SHELL = Wrapper("runs the commands of its -c text as children")
_HANDS_ON_TEXT = Wrapper("starts a shell with its -c text, and waits for it", takes_text=True)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names: str, wrapper: Wrapper) -> dict[str, Wrapper]:
    return dict.fromkeys(names.split(), wrapper)


def _waits_with(verbs: str) -> Wrapper:
    return Wrapper(_WAITS.reason, tuple(verbs.split()))


TABLE: dict[str, Wrapper] = {
    # They exec in place, so they keep the identity that their program will have.
    **_each("env nice ionice stdbuf nohup chrt taskset chroot setpriv setarch numactl", _EXECS),
    **_each("gosu su-exec capsh prlimit envdir chpst poetry pipenv direnv", _EXECS),
    # setsid(1) forks when it leads its process group, which a supervised root always does.
    "setsid": Wrapper("forks and exits at once when it leads its group", leaves=True),
    "daemonize": Wrapper("forks, exits, and leaves its program", leaves=True),
    # They stay as the parent.
    **_each("timeout gtimeout time unshare nsenter strace ltrace unbuffer", _WAITS),
    **_each("script flock", _HANDS_ON_TEXT),
    **_each("firejail bwrap tini docker-init dumb-init catatonit xvfb-run faketime", _WAITS),
    **_each("dbus-run-session proot fakeroot systemd-inhibit perf rlwrap setlock", _WAITS),
    # Their monitor stays above the program, to end its session or pass signals on.
    **_each("sudo doas pkexec", _WAITS),
    **_each("su runuser", _HANDS_ON_TEXT),
    # Package runners: they find or install a program, then start it.
    **_each("npx npx-cli bunx pnpx uvx pipx corepack", _WAITS),
    **_each("npm npm-cli pnpm yarn", _waits_with("exec x dlx run run-script start test")),
    **_each("uv rye pdm hatch conda mamba micromamba", _waits_with("run uvx")),
    "bun": _waits_with("x"),
    # Environment and build runners.
    **_each("go dotnet op doppler dotenvx", _waits_with("run")),
    **_each("mise aws-vault", _waits_with("exec x run")),
}

# Beside a workload, they serve it or pass its text on: never the candidate themselves.
SERVANTS = _names(
    "tee cat ts logger grep sed awk head tail less pv Xvfb dbus-daemon ssh-agent gpg-agent"
)

# Those that are scripts themselves. A script of the user's own that happens to be called `time`
# is not the native program of that name.
_SCRIPTS = _names(
    "npx npx-cli npm npm-cli pnpm pnpx yarn corepack bunx pipx poetry pipenv pdm hatch conda mamba"
    " xvfb-run unbuffer fakeroot"
)
_LOOKED_AT = 8  # a verb comes early on a command line; later words belong to the program


def wrapper_of(program: Program) -> Wrapper | None:
    """What kind of wrapper this process is; None: it is none."""
    family = interpreter(program)
    if family is None:
        return _native(program)
    if shell_code(program) is not None:
        return _SHELL
    line = script_line(program)
    called = (base(line[0]), stem(base(line[0]))) if line else ()
    found = _lookup(tuple(name for name in called if name in _SCRIPTS), line[1:])
    return found or _lookup((family,), words(program)[1:2])  # `bun x`


def _native(program: Program) -> Wrapper | None:
    line, running = words(program), base(program.exe)
    first = base(line[0]) if line else ""
    if running in MULTI_CALL or not running:
        return _lookup((first, program.comm), line[1:])
    return _lookup((running, program.comm), line[1:])


def _lookup(called: tuple[str, ...], arguments: tuple[str, ...]) -> Wrapper | None:
    for name in called:
        wrapper = TABLE.get(name)
        if wrapper is not None and _has_verb(wrapper, arguments):
            return wrapper
    return None


def _has_verb(wrapper: Wrapper, arguments: tuple[str, ...]) -> bool:
    # Without any argument nothing speaks against it: npm's title is bare while it starts.
    if not wrapper.verbs or not arguments:
        return True
    return any(word in wrapper.verbs for word in arguments[:_LOOKED_AT])


def text_of(program: Program) -> str | None:
    """The shell text that a wrapper is to run: of `sh -c TEXT`, and of `script -qefc TEXT`."""
    text, wrapper = shell_code(program), wrapper_of(program)
    if text is not None or wrapper is None or not wrapper.takes_text:
        return text
    line = words(program)
    for at, word in enumerate(line[1:], 1):
        if word.startswith("--command="):
            return word.partition("=")[2]
        is_short = word.startswith("-") and not word.startswith("--") and word.endswith("c")
        if is_short or word == "--command":
            return line[at + 1] if at + 1 < len(line) else None
    return None


def is_shell(wrapper: Wrapper | None) -> bool:
    """Whether it is `sh -c`: the one wrapper that may also do the work itself."""
    return wrapper is _SHELL
