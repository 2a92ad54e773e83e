"""`holdfast queue`: what waits, in which order and why; limits, pauses and places in the line."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.queue_text import need_text, show_queues
from holdfast.errors import InvalidOption, WrongUse
from holdfast.manage.operations import run_steps
from holdfast.manage.queueing.changes import change_queue, find_queue, move_in_line
from holdfast.manage.queueing.values import OFF, read_need, read_priority
from holdfast.manage.queueing.view import list_queues, look_at_queue
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_MOST_LIMIT = 100_000


def add_arguments(parser: Parser) -> None:
    """What to do, to what."""
    parser.add_argument(
        "words", metavar="Q", nargs="*", help="[show] [Q], set Q, pause Q, unpause Q, or move RUN"
    )
    parser.add_argument("--limit", metavar="N", help="set: how many of its runs may be active")
    parser.add_argument(
        "--needs-memory",
        metavar="S|auto|off",
        help="set: what its runs wait for to be free, if they do not say (off)",
    )
    parser.add_argument("--first", action="store_true", help="move: to the front of the line")
    parser.add_argument("--priority", metavar="N", help="move: the highest starts first")
    parser.epilog = (
        "holdfast queue                     every queue\n"
        "holdfast queue Q                   one queue\n"
        "holdfast queue set Q --limit N     how many of its runs may be active (1)\n"
        "holdfast queue set Q --needs-memory auto   its runs wait for what earlier ones took\n"
        "holdfast queue pause|unpause Q     admit nothing more; go on\n"
        "holdfast queue move RUN --first    or --priority N\n"
        "exit codes: 3 no such queue or run, 4 the run does not wait, 6 the queue is busy"
    )


def run(args: Namespace) -> int:
    """Do it, or show it."""
    words = list(args.words)
    verb = words.pop(0) if words and words[0] in _VERBS else "show"
    if len(words) > 1 or (verb != "show" and len(words) != 1):
        raise WrongUse(f"queue {verb}: {len(words)} names", hint="holdfast queue --help")
    _VERBS[verb](args, words)
    return 0


def _show(args: Namespace, words: list[str]) -> None:
    home = Runs().home
    home.check()
    queues = [look_at_queue(find_queue(home, words[0]))] if words else list_queues(home)
    if args.json:
        streams.say_json({"schema": 1, "queues": [one.to_json() for one in queues]})
    else:
        show_queues(queues, quiet=args.quiet)


def _set(args: Namespace, words: list[str]) -> None:
    changes: dict[str, object] = {}
    if args.limit is not None:
        changes["limit"] = _limit(args.limit)
    if args.needs_memory is not None:
        need = read_need(args.needs_memory, "--needs-memory")
        changes["needs_memory"] = None if need == OFF else need
    if not changes:
        hint = "holdfast queue set Q --limit N, or --needs-memory S|auto|off"
        raise WrongUse("queue set: nothing to set", hint=hint)
    _change(args, words[0], **changes)


def _limit(text: str) -> int:
    limit = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= limit <= _MOST_LIMIT:
        message = f"--limit: {text!r} is not a whole number from 1 to {_MOST_LIMIT}"
        raise InvalidOption(message, option="limit", value=text)
    return limit


def _change(args: Namespace, name: str, **changes: object) -> None:
    settings = change_queue(Runs().home, name, **changes)
    if args.json:
        streams.say_json({"schema": 1, "queue": name, **settings.as_dict()})
    elif not args.quiet:
        paused = ", paused" if settings.paused else ""
        need = need_text(settings.needs_memory)
        streams.complain(f"queue {name}: limit {settings.limit}{need}{paused}")


def _admit(args: Namespace, name: str, *, paused: bool) -> None:
    """Of a queue that is there: a misspelt name must not look as if it were paused."""
    home = Runs().home
    home.check()
    find_queue(home, name)
    _change(args, name, paused=paused)


def _pause(args: Namespace, words: list[str]) -> None:
    _admit(args, words[0], paused=True)


def _unpause(args: Namespace, words: list[str]) -> None:
    _admit(args, words[0], paused=False)


def _move(args: Namespace, words: list[str]) -> None:
    if args.first == (args.priority is not None):
        raise WrongUse("queue move: where to?", hint="queue move RUN --first, or --priority N")
    priority = None if args.priority is None else read_priority(args.priority, "--priority")
    run = Runs().get(words[0])
    run_steps(move_in_line(run.directory, first=args.first, priority=priority))
    if args.json:
        streams.say_json(run.info().to_json())


_VERBS = {"show": _show, "set": _set, "pause": _pause, "unpause": _unpause, "move": _move}
