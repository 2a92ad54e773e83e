"""A node's own side: what a submitter runs here, over ssh or an engine.

What it says begins with the node's facts and ends with the exit code, so that a cut link is never
taken for an end. What is asked comes over stdin: it is in no process list.
"""

from __future__ import annotations

import os

from holdfast.cli.text import streams
from holdfast.errors import WrongUse
from holdfast.fleet.node import marked, node_facts
from holdfast.lean import read_json
from holdfast.manage.runs import Runs
from holdfast.run.atomic_files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.run.locks import HeldLock

_LONGEST_REQUEST = 16 << 20
_OTHER_NODE = 6


def serve(verb: str, words: list[str], args: Namespace) -> int:
    """One of the verbs of a node."""
    from holdfast.manage.starting.elsewhere import stay_here

    stay_here()
    return _VERBS[verb](words, args)


def _start(_words: list[str], _args: Namespace) -> int:
    """Start what the submitter asks for, one line each."""
    from holdfast.fleet.starter import serve_starts
    from holdfast.manage.starting.launch import preload_shims

    runs = Runs(notice=streams.complain)
    preload_shims()
    serve_starts(runs, 0, 1)
    return 0


def _relay(words: list[str], _args: Namespace) -> int:
    """Run one command as it was typed elsewhere."""
    asked = _asked(words)
    facts = node_facts(Runs().home)
    step = _step_of_job()
    is_framed = not words
    if is_framed:
        write_all(1, marked({"hello": facts.to_json()}))
    code = _OTHER_NODE if asked.get("node") not in (None, facts.node) else _command(asked)
    if is_framed:
        streams.flush()
        write_all(1, marked({"ended": code}))
    elif code == _OTHER_NODE:
        streams.complain(f"holdfast: this is node {facts.node}, and not {asked.get('node')}")
    if step is not None:
        step.release()
    return code


def _step_of_job() -> HeldLock | None:
    """Held while a command reads through a Slurm job: its attendant waits for that."""
    if "SLURM_STEP_ID" not in os.environ:
        return None
    from holdfast.fleet.slurm.attendant import join_job

    return join_job(Runs().home)


def _attend(_words: list[str], _args: Namespace) -> int:
    """The batch process of a Slurm job."""
    from holdfast.fleet.slurm.attendant import attend
    from holdfast.manage.starting.launch import allow_fork

    allow_fork()
    return attend(Runs(notice=streams.complain), _first_line())


def _hand(words: list[str], _args: Namespace) -> int:
    """A step of a Slurm job that brings its attendant a request with secrets."""
    from holdfast.fleet.slurm.attendant import hand

    home = Runs().home
    write_all(1, marked({"hello": node_facts(home, make=True).to_json()}))
    hand(home, words[0], _first_line())
    return 0


def _command(asked: dict[str, Any]) -> int:
    from holdfast.cli import main

    if asked.get("columns"):
        from holdfast.cli.text.terminal import pretend_terminal

        pretend_terminal(int(asked["columns"]))
    if not asked.get("may_start", True):
        from holdfast.manage.starting.launch import forbid_shims

        forbid_shims(str(asked.get("why", "")))
    return main(asked["words"])


def _asked(words: list[str]) -> dict[str, Any]:
    """The request: one line of stdin, byte by byte, since the rest is the command's own."""
    if words:
        import base64

        line = base64.urlsafe_b64decode(words[0] + "=" * (-len(words[0]) % 4))
    else:
        line = _first_line()
    try:
        asked = read_json(line.decode())
        if isinstance(asked, dict) and all(isinstance(word, str) for word in asked["words"]):
            return asked
    except (ValueError, KeyError, TypeError):  # refused below
        pass
    raise WrongUse("fleet relay: a submitter runs this, and says what to run")


def _first_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _LONGEST_REQUEST:
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _output(words: list[str], _args: Namespace) -> int:
    """A run's output from a byte on, until it has ended; where each piece begins is said."""
    from holdfast.manage.operations import run_steps
    from holdfast.manage.reading.output_stream import OutputStream

    reference, byte = words
    if not byte.isdigit():
        raise WrongUse(f"fleet output: {byte!r} is not a byte")
    run, expected = Runs().get(reference), -1
    with OutputStream(run.directory, int(byte)) as stream:
        while (chunk := run_steps(stream.next_chunk())) is not None:
            if chunk.at_byte != expected:
                write_all(1, marked({"at_byte": chunk.at_byte}))
            write_all(1, chunk.data)
            expected = chunk.at_byte + len(chunk.data)
    return 0


def _facts(words: list[str], args: Namespace) -> int:
    """The facts after a cursor for a submitter's database, a batch in each line."""
    from holdfast.fleet.export.reading import FactReader
    from holdfast.manage.operations import run_steps

    runs = Runs()
    runs.home.check()
    with FactReader(runs, words[0] if words else None, follow=args.follow) as reader:
        while (batch := run_steps(reader.next_batch())) is not None:
            streams.say_json(batch.to_json())
            streams.flush()
    return 0


def _node(_words: list[str], args: Namespace) -> int:
    """What this node says about itself, with what was tried."""
    from holdfast.fleet.probe import probe_node

    document = probe_node(Runs().home)
    if args.json:
        streams.say_json({"schema": 1, **document})
    else:
        for name, value in document.items():
            streams.say(f"{name:<10}{value}")
    return 0


_VERBS = {
    "start": _start,
    "relay": _relay,
    "output": _output,
    "facts": _facts,
    "node": _node,
    "attend": _attend,
    "hand": _hand,
}
