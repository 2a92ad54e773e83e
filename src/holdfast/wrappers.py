"""Wrappers, interpreters and shells: the programs that stand before a workload. One table.

Data, and how these programs spell their command lines; pure. `process/workload` tells with it which
process is the workload, `agents` which agent a command starts. Every shim has it in memory, so what
only a launch needs (`usage`) is text here, and is parsed in `agents/unwrapping.py`.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "yash")
JAVASCRIPT = ("node", "bun", "deno")
MULTI_CALL = ("busybox", "toybox", "coreutils")  # one executable, named by its first word

VERSION_CHARACTERS = "-.0123456789"
_ALIASES = {"nodejs": "node"}


# Interpreters and shells


class Interpreter(Record):
    """How an interpreter spells its own options."""

    with_value: tuple[str, ...] = ()  # the next word belongs to the option
    code: tuple[str, ...] = ()  # a program text follows: there is no script
    module: tuple[str, ...] = ()  # the next word is the script's name
    verbs: tuple[str, ...] = ()  # a first word that is not the script yet


INTERPRETERS = {
    "python": Interpreter(
        with_value=("-W", "-X", "--check-hash-based-pycs"), code=("-c",), module=("-m",)
    ),
    "pypy": Interpreter(with_value=("-W", "-X"), code=("-c",), module=("-m",)),
    "node": Interpreter(
        with_value=("-r", "--require", "--import", "--loader", "-C", "--conditions"),
        code=("-e", "--eval", "-p", "--print", "-pe"),
    ),
    "bun": Interpreter(
        with_value=("-r", "--preload"), code=("-e", "--eval", "-p", "--print"), verbs=("run",)
    ),
    "deno": Interpreter(verbs=("run",)),
    "ruby": Interpreter(with_value=("-I", "-r", "-C"), code=("-e",)),
    "perl": Interpreter(with_value=("-I",), code=("-e", "-E")),
    "php": Interpreter(with_value=("-d", "-c"), code=("-r",), module=("-f",)),
    **dict.fromkeys(SHELLS, Interpreter(with_value=("-o", "+o", "-O", "+O", "--rcfile"))),
}


def family_of(name: str) -> str:
    """`python` for python3.11, `node` for nodejs; other names as they are."""
    stem = name.rstrip(VERSION_CHARACTERS)
    return _ALIASES.get(stem, stem)


def script_at(family: str, arguments: Sequence[str]) -> int | None:
    """Where the script stands among an interpreter's arguments; None: it runs none.

    The word before it tells whether it is named as a module.
    """
    options, at = INTERPRETERS[family], 0
    while at < len(arguments):
        word = arguments[at]
        if word == "-" or word in options.code or (family in SHELLS and has_code_flag(word)):
            return None
        if word == "--" or word in options.module:
            return at + 1
        if word.startswith(("-", "+")):
            at += 2 if word in options.with_value else 1
        elif word in options.verbs:
            at += 1
        else:
            return at
    return None


def shell_text_at(arguments: Sequence[str]) -> int | None:
    """Where TEXT stands among the arguments of `sh -c TEXT`; None: a file or stdin is read."""
    options, at, has_code = INTERPRETERS["sh"], 0, False
    while at < len(arguments) and arguments[at].startswith(("-", "+")):
        word = arguments[at]
        if word == "--":
            at += 1
            break
        has_code = has_code or has_code_flag(word)
        at += 2 if word in options.with_value else 1
    return at if has_code and at < len(arguments) else None


def has_code_flag(word: str) -> bool:
    """-c, also as -lc, -ec, -xec."""
    return word[:1] == "-" and word[1:2] != "-" and "c" in word[1:]


# Wrappers


class Wrapper(Record):
    """One known wrapper.

    `usage`: the words of its own before its program, as in `-k= -v WORD`: `-k` takes a value, `-v`
    does not, `-*` are all other options, WORD is one word, VARIABLES are assignments. Its program
    is a command, a PACKAGE, or in a TEXT alone. None: what follows is not looked at for an agent.
    """

    reason: str  # how it starts its program
    usage: str | None = None
    verbs: Mapping[str, str | None] = {}  # a wrapper only with one of these: the usage of each
    leaves: bool = False  # it may fork, exit and leave its program running, by design
    takes_text: bool = False  # `-c TEXT` is a shell's text, as in `script -qefc TEXT`


_EXECS = "becomes its program: seen only until the exec"
_WAITS = "starts its program as a child and waits for it"
_WAITS_FOR_SHELL = "starts a shell with its -c text, and waits for it"
SHELL = Wrapper("runs the commands of its -c text as children")  # of all SHELLS with a -c

_TIMEOUT = (
    "--foreground --preserve-status -v --verbose -k= --kill-after= -s= --signal= WORD"  # the time
)
_NPX = (
    "-y --yes --no --quiet -q --no-install --prefer-offline --bun"
    " -p= --package= --registry= --cache= PACKAGE"
)
_UV = (
    "-q --quiet --isolated --offline --no-cache -n -U --upgrade"
    " --from= --with= -w= --python= -p= --index-url= --spec="
)
_UVX = f"{_UV} PACKAGE"
_UV_RUN = (
    f"{_UV} --frozen --locked --no-sync --no-project --active"
    " --project= --directory= --extra= --group= --env-file="
)
_CONDA_RUN = "-n= --name= -p= --prefix= --cwd= --no-capture-output --live-stream"
_XVFB_RUN = (
    "-a --auto-servernum -l --listen-tcp -e= --error-file= -f= --auth-file= -n= --server-num="
    " -p= --xauth-protocol= -s= --server-args= -w= --wait="
)
_FLOCK = (
    "-s --shared -x -e --exclusive -n --nb --nonblock -o --close -F --no-fork --verbose"
    " -w= --wait= --timeout= -E= --conflict-exit-code= WORD"  # the file
)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())  # a set of so many takes 2 kB


def _each(names: str, wrapper: Wrapper) -> dict[str, Wrapper]:
    return dict.fromkeys(names.split(), wrapper)


def _waits_with(verbs: str, usage: str | None = None) -> Wrapper:
    return Wrapper(_WAITS, verbs=dict.fromkeys(verbs.split(), usage))


WRAPPERS: dict[str, Wrapper] = {
    # They exec in place, so they keep the identity that their program will have.
    "env": Wrapper(_EXECS, "-i --ignore-environment - -u= --unset= -C= --chdir= VARIABLES"),
    "nice": Wrapper(_EXECS, "-n= --adjustment="),
    "ionice": Wrapper(_EXECS, "-t -c= -n= --class= --classdata="),
    "nohup": Wrapper(_EXECS, ""),
    "stdbuf": Wrapper(_EXECS, "-* -i= -o= -e="),
    "taskset": Wrapper(_EXECS, "-a --all-tasks -c --cpu-list WORD"),
    **_each("chrt chroot setpriv setarch numactl gosu su-exec capsh prlimit", Wrapper(_EXECS)),
    **_each("envdir chpst direnv", Wrapper(_EXECS)),
    **_each("poetry pipenv", Wrapper(_EXECS, verbs={"run": ""})),
    # setsid(1) forks when it leads its process group, which a supervised root always does.
    "setsid": Wrapper(
        "forks and exits at once when it leads its group",
        "-f --fork -c --ctty -w --wait -fw",
        leaves=True,
    ),
    "daemonize": Wrapper("forks, exits, and leaves its program", leaves=True),
    # They stay as the parent.
    **_each("timeout gtimeout", Wrapper(_WAITS, _TIMEOUT)),
    "time": Wrapper(_WAITS, "-p -v"),
    "script": Wrapper(_WAITS_FOR_SHELL, "-* -o= -O= -I= -B= -T= -m= -E= TEXT", takes_text=True),
    "flock": Wrapper(_WAITS_FOR_SHELL, _FLOCK, takes_text=True),
    "unbuffer": Wrapper(_WAITS, "-p"),
    "xvfb-run": Wrapper(_WAITS, _XVFB_RUN),
    **_each("tini docker-init", Wrapper(_WAITS, "-s -g -v -w -p= -e=")),
    "dumb-init": Wrapper(_WAITS, "-c --single-child -v --verbose -r= --rewrite="),
    **_each("unshare nsenter strace ltrace firejail bwrap catatonit faketime", Wrapper(_WAITS)),
    **_each("dbus-run-session proot fakeroot systemd-inhibit perf rlwrap setlock", Wrapper(_WAITS)),
    # Their monitor stays above the program, to end its session or pass signals on. What an agent
    # leaves behind them is another user's.
    **_each("sudo doas pkexec", Wrapper(_WAITS)),
    **_each("su runuser", Wrapper(_WAITS_FOR_SHELL, takes_text=True)),
    # Package runners: they find or install a program, then start it.
    **_each("npx pnpx bunx", Wrapper(_WAITS, _NPX)),
    "uvx": Wrapper(_WAITS, _UVX),
    **_each("npx-cli corepack", Wrapper(_WAITS)),
    **_each(
        "npm npm-cli pnpm yarn",
        Wrapper(
            _WAITS,
            verbs={
                **dict.fromkeys(("exec", "x", "dlx"), _NPX),
                **dict.fromkeys(("run", "run-script", "start", "test")),
            },
        ),
    ),
    "bun": _waits_with("x", _NPX),
    "pipx": _waits_with("run", _UVX),
    "uv": Wrapper(_WAITS, verbs={"run": _UV_RUN, "tool run": _UVX, "uvx": None}),
    **_each("rye pdm hatch", _waits_with("run", "")),
    **_each("conda mamba micromamba", _waits_with("run", _CONDA_RUN)),
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
SCRIPTS = _names(
    "npx npx-cli npm npm-cli pnpm pnpx yarn corepack bunx pipx poetry pipenv pdm hatch conda mamba"
    " xvfb-run unbuffer fakeroot"
)


def is_text_option(word: str) -> bool:
    """Whether a wrapper that takes a shell's text has it in the next word: `-qefc`, `--command`."""
    is_short = word.startswith("-") and not word.startswith("--")
    return word == "--command" or (is_short and word.endswith("c"))
