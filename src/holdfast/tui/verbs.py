"""Every key: what it does, its name in the palette, and one line of help."""

from __future__ import annotations

from holdfast.manage.words.possible import Deed
from holdfast.record import Record


class Verb(Record):
    """`s`: stop."""

    name: str
    key: str
    label: str  # in the line of keys
    help: str
    deed: Deed | None = None  # what is done to runs; None: something is shown
    question: str = ""  # what destroys asks once: "stop {what}?"


VERBS = {
    one.name: one
    for one in (
        Verb("detail", "enter", "detail", "all that is known about a run, evidence first"),
        Verb("logs", "l", "logs", "its output, followed as it comes"),
        Verb("stop", "s", "stop", "stop its whole tree; SIGKILL after the grace", Deed.STOP,
             "stop {what}?"),
        Verb("hurry", "K", "kill now", "hurry a stop: SIGKILL now", Deed.HURRY),
        Verb("approve", "y", "approve", "show what its agent asks, and allow it", Deed.APPROVE),
        Verb("deny", "n", "deny", "show what its agent asks, and refuse it", Deed.DENY),
        Verb("attach", "a", "attach", "its terminal, until ctrl-\\", Deed.ATTACH),
        Verb("send", "i", "send", "write a line to its input", Deed.SEND),
        Verb("pause", "z", "pause", "stop its processes where they are; again: go on", Deed.PAUSE),
        Verb("resume", "r", "resume", "go on with an agent's session, as a new run", Deed.RESUME),
        Verb("rerun", "R", "rerun", "the same command again, as a new run", Deed.RERUN),
        Verb("recover", "v", "recover", "adopt or record every run whose shim is gone",
             Deed.RECOVER),
        Verb("remove", "d", "remove", "remove ended runs, with their output", Deed.REMOVE,
             "remove {what}? Output and record are deleted."),
        Verb("archive", "A", "archive", "pack ended runs into archives", Deed.ARCHIVE,
             "archive {what}? Each is packed, and leaves the list."),
        Verb("tree", "t", "tree", "its processes, each with its verdict"),
        Verb("charts", "c", "charts", "what it used over time, with events and anomalies"),
        Verb("events", "e", "events", "what happened, and every signal that was sent"),
        Verb("token", "w", "copy token", "copy the identity token of its workload", Deed.TOKEN),
    )
}  # fmt: skip

OF_LIST = (
    ("up down j k", "move; page up and down, home and end, g and G too"),
    ("space", "mark a run: keys act on all that are marked; u unmarks them"),
    ("M", "mark all that are shown: / first shows some alone"),
    ("/", "show some alone: text, state:failed, agent:claude, tag:k=v; ! inverts"),
    ("o", "sort by a column's letter; again: turned round; o o: by need"),
    (":", "all commands by name"),
    ("?", "this help"),
    ("q", "leave; runs are not affected"),
)
OF_PAGE = (
    ("esc q", "back"),
    ("/", "search; n and N go on"),
    ("f", "follow the end of a log"),
    ("p", "an agent's stream made readable, or as it was written"),
)
OF_SIGNS = (
    ("!", "an agent needs you"),
    ("x", "orphaned: its supervisor is gone, v recovers it"),
    ("?", "unknown: enter says why"),
    ("*", "an anomaly, or something survived its end"),
    ("$", "a quota or budget is used up"),
    (">", "running"),
    (".", "queued"),
)
