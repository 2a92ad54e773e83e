"""A command about a run that is elsewhere: the same words, run by its node's own holdfast.

So text, JSON and exit code are the node's. What is only known here (which node, that it does not
answer, where a file is to be written) is done here.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

from holdfast.cli.arguments.fast_args import QuickParser
from holdfast.cli.text import streams
from holdfast.cli.text.log_text import LineText, LogFormat
from holdfast.cli.text.terminal import columns, is_terminal
from holdfast.errors import HoldfastError, NoAnswer, NotFound, OtherNode, Unavailable, WrongUse
from holdfast.fleet.placer import NodeCall
from holdfast.fleet.reaching import (
    ask,
    drop_waiting,
    leave_to_engine,
    look_steps,
    open_channel,
    read_document,
)
from holdfast.fleet.remote import RemoteRun
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.together import run_together
from holdfast.run.names import is_glob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from holdfast.cli import Module
    from holdfast.fleet.reaching import Reply
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps

    Meant = dict[str, Run | HoldfastError]

_REMOVES = ("rm", "archive")
_AT_ONCE = 16


def pass_on(verb: str, module: Module, args: Namespace) -> int | None:
    """Do it where the runs are; None: they are all here."""
    runs = Runs(notice=streams.notices(args.quiet))
    references = [args.run] if isinstance(args.run, str) else list(args.run)
    meant = {one: _find(runs, one) for one in references if not is_glob(one)}
    remote = [one for one in meant.values() if isinstance(one, RemoteRun)]
    if not remote:
        return None
    if verb == "attach":
        return _attach(remote[0], module, args)
    if verb == "stop" and (dropped := _drop_waiting(remote)):
        return _pass_rest(module, args, references, meant, dropped)
    if len(remote) == len(references) and len(set(map(_node_of, remote))) == 1:
        code = _pass_all(verb, module, args, remote)
    else:
        code = _pass_each(verb, module, args, references, meant)
    if verb in _REMOVES:
        _forget_removed(remote)
    return code


def _find(runs: Runs, reference: str) -> Run | HoldfastError:
    try:
        return runs.get(reference)
    except HoldfastError as error:
        return error


def _attach(run: RemoteRun, module: Module, args: Namespace) -> int:
    if not os.isatty(0) and not args.read_only:
        return int(module.run(args))  # which says what it needs
    placer = run._fleet.placer_of(run.placement.target)
    argv = placer.attach_argv(run.placement, words_of("attach", module, args, [run.id]))
    from holdfast.cli.fleet.attaching import lend_terminal

    return lend_terminal(argv, run.placement)


def _node_of(run: RemoteRun) -> str:
    return run.placement.node or run.id


# Runs that wait at their engine


def _drop_waiting(remote: list[RemoteRun]) -> list[RemoteRun]:
    """Those that had not begun, and never will now."""
    steps = [drop_waiting(one._fleet, one.placement) for one in remote]
    done = zip(remote, run_together(steps, _AT_ONCE), strict=True)
    return [one for one, is_dropped in done if is_dropped is True]


def _pass_rest(
    module: Module, args: Namespace, references: list[str], meant: Meant, dropped: list[RemoteRun]
) -> int:
    """Tell of those, and stop the others."""
    documents = []
    for one in dropped:
        documents.append({**one.info().to_json(), "stop": {"error": None, "survivors": []}})
        if not args.json and not args.quiet:
            streams.say(f"{one.placement.name}  stopped: it had not begun")
    rest = [one for one in references if meant.get(one) not in dropped]
    return _pass_each("stop", module, args, rest, meant, told=documents)


# One node


def _pass_all(verb: str, module: Module, args: Namespace, remote: list[RemoteRun]) -> int:
    """All of them are on one node: one command."""
    first, ids = remote[0], [one.id for one in remote]
    if verb == "status":
        return _status(first, module, args)
    if verb == "report" and args.html not in (None, "-"):
        return _page(first, module, args)
    words = words_of(verb, module, args, ids)
    try:
        code: int = run_steps(_stream(first, words))
    except NoAnswer as error:
        if verb != "stop":
            raise
        return _leave_to_engine(remote, error, args)
    return code


def _leave_to_engine(remote: list[RemoteRun], error: NoAnswer, args: Namespace) -> int:
    """Tell of each run of a node that a stop did not reach what its engine was asked instead."""
    steps = [leave_to_engine(one._fleet, one.placement, error) for one in remote]
    errors: list[HoldfastError] = run_together(steps, _AT_ONCE)
    if len(remote) == 1:
        raise errors[0]
    documents = [
        _failed(one.placement.name, e, args) for one, e in zip(remote, errors, strict=True)
    ]
    if args.json:
        streams.say_json({"schema": 1, "runs": documents})
    return errors[0].exit_code


def _stream(run: RemoteRun, words: list[str]) -> Steps[int]:
    """What the node says, as it comes."""
    call = NodeCall(tuple(words), shows_errors=True, columns=_columns())
    channel = yield from open_channel(run._fleet, run.placement, call)
    with channel:
        while (data := (yield from channel.read())) is not None:
            streams.say_bytes([data])
        return channel.exit_code or 0


def _status(run: RemoteRun, module: Module, args: Namespace) -> int:
    """As the node shows it; what is known here when it does not answer, or has none."""
    words = words_of("status", module, args, [run.id])
    tried: HoldfastError | None = None
    try:
        reply = run_steps(ask(run._fleet, run.placement, words, columns=_columns()))
        if reply.code != NotFound.exit_code:
            streams.say_bytes([reply.output])
            if reply.errors:
                streams.complain(reply.errors)
            _keep_look(run, reply.output if args.json else b"")
            return int(reply.code)
    except (NoAnswer, OtherNode) as error:  # then what is known here is shown
        tried = error
    info: RunInfo = run_steps(look_steps(run._fleet, run.placement, tried))
    if args.json:
        streams.say_json(info.to_json())
        return 0
    from holdfast.cli.fleet.texts import lines_of_unreached

    for line in lines_of_unreached(info, run.placement):
        streams.say(line)
    return 0


def _keep_look(run: RemoteRun, document: bytes) -> None:
    """For when its node does not answer: what was just shown, or a first look at it."""
    ledger = run._fleet.ledger
    if document:
        ledger.remember(run.id, json.loads(document))
    elif ledger.recall(run.id) is None:
        run_steps(look_steps(run._fleet, run.placement))


def _page(run: RemoteRun, module: Module, args: Namespace) -> int:
    """The page is made there, and written here."""
    from holdfast.cli.report import write_page

    path, args.html = args.html, "-"
    reply = run_steps(ask(run._fleet, run.placement, words_of("report", module, args, [run.id])))
    if reply.code:
        streams.complain(reply.errors)
        return int(reply.code)
    write_page(path, reply.output, args.quiet)
    return 0


# Several nodes, or some of them here


def _pass_each(
    verb: str,
    module: Module,
    args: Namespace,
    references: list[str],
    meant: Meant,
    *,
    told: Sequence[dict[str, Any]] = (),
) -> int:
    if verb == "logs" and args.follow:
        raise WrongUse("-f follows the runs of one node", hint="name those of one node")
    args.is_one_of_several = True
    local = [one for one in references if not isinstance(meant.get(one), RemoteRun)]
    code, documents = _here(verb, module, args, local) if local else (0, [])
    documents = [*told, *documents]
    codes = dict.fromkeys(local, code)
    remote = {one: run for one in references if isinstance(run := meant.get(one), RemoteRun)}
    steps = [_ask_one(verb, run, words_of(verb, module, args, [run.id])) for run in remote.values()]
    for reference, reply in zip(remote, run_together(steps, _AT_ONCE), strict=True):
        try:
            documents += _told(verb, remote[reference], reply, args)
            codes[reference] = reply.code
        except HoldfastError as error:
            codes[reference] = error.exit_code
            documents.append(_failed(reference, error, args))
    if verb == "logs" and args.json:
        for document in documents:
            streams.say_json(document)
    elif args.json:
        streams.say_json({"schema": 1, "runs": documents})
    return next((codes[one] for one in references if codes.get(one)), 0)


def _ask_one(verb: str, run: RemoteRun, words: list[str]) -> Steps[Reply]:
    """One command; of a stop that does not reach its node the engine is told."""
    try:
        return (yield from ask(run._fleet, run.placement, words, seconds=None))
    except NoAnswer as error:
        if verb != "stop":
            raise
        raise (yield from leave_to_engine(run._fleet, run.placement, error)) from None


def _here(verb: str, module: Module, args: Namespace, local: list[str]) -> tuple[int, list[Any]]:
    """Those of this home; with --json what it prints is a part of the whole."""
    args.run = local
    if not args.json or verb == "logs":
        return module.run(args), []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = module.run(args)
    return code, list(json.loads(printed.getvalue() or "{}").get("runs", []))


def _told(verb: str, run: RemoteRun, reply: Reply | HoldfastError, args: Namespace) -> list[Any]:
    """Show what a node printed; with --json, what it says of the run. Its error is raised."""
    if isinstance(reply, HoldfastError):
        raise reply
    if verb == "logs":
        _show_lines(run, reply, args)
    elif args.json:
        return list(read_document(run.placement, verb, reply).get("runs", ()))
    else:
        streams.say_bytes([reply.output])
    if reply.errors and not args.json:
        streams.complain(reply.errors)
    return []


def _show_lines(run: RemoteRun, reply: Reply, args: Namespace) -> None:
    """Output of one run of several: each line has its name."""
    name, lines = run.placement.name, reply.output.splitlines()
    if args.json:
        for line in lines:
            document = read_document(run.placement, "logs", reply.replace(output=line))
            streams.say_json({"name": name, **document})
        return
    head = LineText(LogFormat(names=True), name).head(0)
    streams.say_bytes(head + line + b"\n" for line in lines)


def _failed(reference: str, error: HoldfastError, args: Namespace) -> dict[str, Any]:
    if not args.json:
        streams.complain(f"holdfast: {reference}: {error.message}")
    return {"name": reference, **error.to_json()}


def _forget_removed(remote: list[RemoteRun]) -> None:
    """Drop placements that their node no longer has; their keys are free."""
    for run in remote:
        try:
            reply = run_steps(ask(run._fleet, run.placement, ["--json", "status", run.id]))
        except Unavailable:  # it stays expected
            continue
        if reply.code == NotFound.exit_code:
            run._fleet.ledger.forget(run.id)


# The words of a command line


def words_of(verb: str, module: Module, args: Namespace, ids: list[str]) -> list[str]:
    """What was asked, as words again, about these runs."""
    parser = QuickParser(verb, "")
    module.add_arguments(parser)  # type: ignore[arg-type]
    parser.add_common_arguments()
    words = [verb]
    for flag, argument in parser.options.items():
        value = getattr(args, argument.name)
        if not flag.startswith("--") or value in (None, False):
            continue
        if argument.is_flag:
            words.append(flag)
        else:
            values = value if argument.repeats else [value]
            words += [f"{flag}={one}" for one in values]
    words.append("--")
    for place in parser.places:
        value = ids if place.name == "run" else getattr(args, place.name)
        words += value if isinstance(value, list) else [] if value is None else [value]
    return words


def _columns() -> int | None:
    """How wide the terminal is that the node writes to through us; None: there is none."""
    return columns() if is_terminal(sys.stdout) else None
