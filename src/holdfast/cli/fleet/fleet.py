"""`holdfast fleet`: other machines: which there are, whether they can be used, what became of what.

The words `start`, `relay`, `output`, `facts`, `node`, `attend` and `hand` are a node's own side of
it: a submitter runs them, over ssh or an engine.
"""

from __future__ import annotations

from holdfast.errors import WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

# verb: how many words follow, at least and at most
_OF_SUBMITTERS = {
    "nodes": (0, 0),
    "check": (1, 1),
    "recover": (0, 0),
    "export": (0, 0),
    "give-up": (1, 1),
}
_OF_NODES = {
    "start": (0, 0),
    "relay": (0, 1),
    "output": (2, 2),
    "facts": (0, 1),
    "node": (0, 0),
    "attend": (0, 0),  # in a Slurm job
    "hand": (1, 1),
}
_NEEDED = {"check": "WHERE, such as ssh:HOST", "give-up": "RUN"}
_HELP = "holdfast fleet --help lists them"


def add_arguments(parser: Parser) -> None:
    """What to do, to what."""
    parser.add_argument(
        "words",
        metavar="VERB",
        nargs="*",
        help="nodes, check WHERE, recover, export, give-up RUN",
    )
    parser.add_argument(
        "--on", metavar="WHERE", action="append", help="export: pull the facts of that node"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="export: go on with new facts")
    parser.add_argument("--reason", metavar="TEXT", help="give-up: why it is known to be gone")
    parser.epilog = (
        "holdfast fleet nodes            every node that has answered, and what is active there\n"
        "                                as far as is known here\n"
        "holdfast fleet check WHERE      try what a run there needs, and name what is wrong\n"
        "holdfast fleet recover          go on with placements whose submitter was killed\n"
        "holdfast fleet export           bring this home's facts into the ledger's PostgreSQL\n"
        "holdfast fleet export --on WHERE  the same for a node there, pulled over its link\n"
        "holdfast fleet give-up RUN      assert that an unknown run is gone: it is lost, its key\n"
        "                                is free; one that has ended keeps it until rm\n"
        "start, relay, output, facts, node, attend and hand are run by submitters, on the node.\n"
        "exit codes: 1 check found something wrong, or facts differ from those exported before;\n"
        "2 export without a database, 3 no such run, 4 refused, 6 no answer"
    )


def run(args: Namespace) -> int:
    """Do it."""
    verb, *words = args.words or [""]
    verbs = {**_OF_SUBMITTERS, **_OF_NODES}
    if not verb:
        raise WrongUse(f"fleet: which of {', '.join(_OF_SUBMITTERS)}?", hint=_HELP)
    if verb not in verbs:
        raise WrongUse(f"fleet: unknown verb {verb!r}", hint=_HELP)
    least, most = verbs[verb]
    if len(words) < least:
        raise WrongUse(f"fleet {verb} needs {_NEEDED.get(verb, 'more words')}", hint=_HELP)
    if len(words) > most:
        raise WrongUse(f"fleet {verb}: {words[most]!r} is one word too many", hint=_HELP)
    if verb != "export" and (args.on or (args.follow and verb != "facts")):
        raise WrongUse(f"fleet {verb}: --on and --follow are for export", hint="leave them out")
    if verb in _OF_NODES:
        from holdfast.cli.fleet.node_side import serve

        return serve(verb, words, args)
    if verb == "export":
        from holdfast.cli.fleet.exporting import export

        return export(args)
    from holdfast.cli.fleet.overseeing import oversee

    return oversee(verb, words, args)
