"""Every option of a run, declared once, in the order of the help.

From here come the library's keywords, `wanted` in the spec, the keys of config.toml and presets,
the command line, its help and completion, and docs/cli.md. A new option is declared here and acted
on where it belongs: what may stop a run in `shim/watching/`, else where `wanted.<field>` is read.
"""

from __future__ import annotations

from holdfast.option_type import Option
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# What `--notify-on` may pick, and when it is told. Without the option all but "failed", which is
# a part of "ended". A new one: its word here, and a call of `supervisor.tell` with it.
NOTICE_KINDS = {
    "ended": "it has ended, in whatever way",
    "failed": "it has ended, neither well nor by a stop that was asked for",
    "anomaly": "a rule about its figures fired",
    "orphan": "its shim died, and another one took it over",
    "budget": "it was paused, because a budget is used up",
    "attention": "its agent waits for a person: permission, an answer, the next turn",
}

# The headings of the help.
START, STOP, WATCH = "what to start", "when to stop it", "what to watch"
WAIT, PLACE = "what to wait for", "where to run it"

OPTIONS = Option.declared  # by name. A shim asks nothing, and clears it
option: Any = Option  # as a field of a record it becomes its default, of the field's own type

# What the start consumes: no part of `wanted`.
option("name", "text", START, "name of the run", short="-n", metavar="N", in_config=False)
option("cwd", "directory", START, "working directory", short="-C")
option("env", "variables", START, "set a variable; K alone passes the current value", short="-e")
option("env_file", "files", START, "read variables from a file: K=V lines, # starts a comment")
option("tags", "tags", START, "a tag to find it by", flag="--tag")
option(
    "stdin",
    "file",
    START,
    "read stdin from FILE; -: copy the caller's; pipe: fed by `send`",
    in_config=False,
)
option(
    "preset",
    "preset",
    START,
    "use [preset.PRESET] of config.toml; of several, a later one wins per key",
    short="-P",
    in_config=False,
)
option(
    "key",
    "text",
    START,
    "a second start with the same key returns the first run, even when ended, until removed",
    metavar="K",
    in_config=False,
)
option(
    "replace",
    "flag",
    START,
    "stop a live run of that name first; print its PID and how it ended",
    in_config=False,
)
option("pty", "flag", START, "run it on a terminal of its own, for attach and send")
option("worktree", "text", START, "run in a git worktree of that branch", metavar="BRANCH")
option(
    "worktree_setup",
    "text",
    START,
    "shell command that is run in the new worktree before CMD; if it fails, CMD is not started",
    metavar="CMD",
)
option("agent", "agent", START, "which agent it is: a name, auto (default) or none")

# What it waits for before it starts. The spec keeps that as `waits`.
option("queue", "queue", WAIT, "wait for a slot of queue Q", short="-Q")
option("priority", "priority", WAIT, "its priority in the queue: the highest starts first (0)")
option(
    "needs_memory",
    "need",
    WAIT,
    "with -Q: wait until so much is free: a size, auto (learned), or off; with --on: set it aside",
)
option("after", "runs", WAIT, "wait until RUN has succeeded; fail if it does not", in_config=False)
option("after_any", "runs", WAIT, "wait until RUN has ended, however it ends", in_config=False)
option("at", "moment", WAIT, "start at this time: 03:00, or 2026-11-18T03:00", in_config=False)
option("delay", "duration", WAIT, "start after this long", flag="--in", in_config=False)
WAITING = ("queue", "priority", "needs_memory", "after", "after_any", "at", "delay")

# Where it runs: another machine, and what that has to set aside. Consumed by `holdfast.fleet`.
option("on", "where", PLACE, "run it there: ssh:HOST, slurm[:PARTITION], ray[:NODE]")
option("cpus", "amount", PLACE, "with --on: cores to set aside")
option("gpus", "amount", PLACE, "with --on: GPUs to set aside")
PLACING = ("on", "cpus", "gpus")  # and `needs_memory`, which a queue has too


class Wanted(Record):
    """The limits and manners that were asked for. None: not asked."""

    secret_env_file: str | None = option(
        "secret_env_file",
        "secrets",
        START,
        "variables that are read from FILE at each start of CMD, and stored nowhere",
    )
    timeout_seconds: float | None = option(
        "timeout",
        "limit",
        STOP,
        "stop the run after this long, restarts included",
        watched=True,
        adjustable=True,
    )
    idle_timeout_seconds: float | None = option(
        "idle_timeout",
        "limit",
        STOP,
        "stop it after this long without output or work; work delays that up to 4 times",
        watched=True,
        adjustable=True,
    )
    silence_timeout_seconds: float | None = option(
        "silence_timeout",
        "limit",
        STOP,
        "stop it after this long without output, whatever it does",
        watched=True,
        adjustable=True,
    )
    memory_max_bytes: int | None = option(
        "memory_max",
        "size",
        STOP,
        "stop it when its process tree uses more memory than this; SIGKILL at 1.2 times that",
        watched=True,
        adjustable=True,
    )
    max_tokens: int | None = option(
        "max_tokens",
        "count",
        STOP,
        "stop it when its agent has used more tokens than this, in and out together",
        watched=True,
        adjustable=True,
    )
    max_cost_usd: float | None = option(
        "max_cost",
        "money",
        STOP,
        "stop it when it has cost more than this; by the agent's own option, or between turns",
        watched=True,
        adjustable=True,
    )
    on_budget: str = option(
        "on_budget",
        ("stop", "pause"),
        STOP,
        "what to do when one of these is used up: stop (default), or pause until `adjust`",
        default="stop",
        adjustable=True,
        metavar="WHAT",
    )
    done_when: str | None = option(
        "done_when",
        "pattern",
        STOP,
        "a whole output line that proves completion; stdout only with --split-stderr",
        watched=True,
    )
    drain_seconds: float | None = option(
        "drain",
        "duration",
        STOP,
        "how long it may take to exit by itself after that (5s, or the agent's)",
    )
    grace_seconds: float = option(
        "grace",
        "duration",
        STOP,
        "time from the stop signal to SIGKILL, in every stop (10s)",
        default=10.0,
        adjustable=True,
    )
    stop_signal: str = option(
        "stop_signal", "signal", STOP, "first signal of a stop (SIGTERM)", default="SIGTERM"
    )
    restart: str = option(
        "restart", "restart", STOP, "no (default), on-failure[:N], or always[:N]", default="no"
    )
    on_limit: str = option(
        "on_limit",
        "on_limit",
        STOP,
        "off (default), or resume[:N]: go on with its session when its quota is back, up to N (5)",
        default="off",
    )
    limit_margin_seconds: float = option(
        "limit_margin",
        "duration",
        STOP,
        "with --on-limit: this long after the time that its agent says (60s)",
        default=60.0,
    )
    limit_spread_seconds: float = option(
        "limit_spread",
        "duration",
        STOP,
        "with --on-limit: up to this much later, at random: many do not return at once (2m)",
        default=120.0,
    )
    limit_waits: str = option(
        "limit_waits",
        "durations",
        STOP,
        "with --on-limit: how long to wait where the agent says no time (15m,30m,1h)",
        default="15m,30m,1h",
    )
    leftovers: str = option(
        "leftovers",
        ("stop", "keep"),
        STOP,
        "processes that outlive it: stop (default) or keep",
        default="stop",
        metavar="WHAT",
    )
    independent: bool = option(
        "independent", "flag", STOP, "do not stop it with the run it was started in", default=False
    )
    workload: str | None = option(
        "workload", "program", WATCH, "name of the program to supervise behind wrappers"
    )
    require_workload: bool = option(
        "require_workload",
        "flag",
        WATCH,
        "fail if that program does not appear",
        default=False,
        watched=True,
    )
    resolve_seconds: float = option(
        "workload_within", "duration", WATCH, "how long it may take to appear (2s)", default=2.0
    )
    sample_interval_seconds: float = option(
        "sample_interval",
        "interval",
        WATCH,
        "time between samples (5s); 0: no samples",
        default=5.0,
    )
    split_stderr: bool = option(
        "split_stderr",
        "flag",
        WATCH,
        "write stderr to a separate file; not with --pty",
        default=False,
    )
    log_max_bytes: int | None = option(
        "log_max",
        "size",
        WATCH,
        "keep roughly the last S bytes of output.log; stderr.log is not bounded",
    )
    notify: str | None = option(
        "notify",
        "text",
        WATCH,
        "shell command, run at the end and at an anomaly, with JSON on its stdin",
        metavar="CMD",
    )
    notify_on: str | None = option(
        "notify_on",
        "notices",
        WATCH,
        f"what to be told of: {', '.join(NOTICE_KINDS)} (all)",
        metavar="KINDS",
    )
    agent_hooks: str = option(
        "agent_hooks",
        ("auto", "off"),
        WATCH,
        "whether its agent is told to report what it waits for: auto (default) or off",
        default="auto",
        metavar="WHAT",
    )
    approve: str = option(
        "approve",
        ("off", "ask", "deny"),
        WATCH,
        "who answers when its agent asks for permission: off (default): its own prompt alone; ask:"
        " `approve` and `deny` too; deny: it is refused",
        default="off",
        metavar="WHO",
    )
    approve_timeout_seconds: float = option(
        "approve_timeout",
        "limit",
        WATCH,
        "how long a question waits for `approve` (1h); then its prompt is left, or it is denied",
        default=3600.0,
    )
    stdin: str = "null"  # or pipe, file: follows from what `stdin` was given

    @property
    def restarts(self) -> int | None:
        """How many restarts are allowed; None: any number."""
        policy, _, count = self.restart.partition(":")
        if policy == "no":
            return 0
        return int(count) if count else None

    @property
    def limit_resumes(self) -> int:
        """How often it may go on after a used-up quota."""
        policy, _, count = self.on_limit.partition(":")
        if policy == "off":
            return 0
        return int(count) if count else 5

    @property
    def restarts_after_success(self) -> bool:
        """Whether an attempt that exited 0 is followed by another one too."""
        return self.restart.partition(":")[0] == "always"


def wanted_options() -> Iterator[Option]:
    """Those that `wanted` keeps."""
    return (option for option in OPTIONS.values() if option.field)


WATCHED = [one.field for one in wanted_options() if one.watched]  # a watcher of the shim has these
ADJUSTABLE = [one.field for one in wanted_options() if one.adjustable]  # `adjust` changes these
