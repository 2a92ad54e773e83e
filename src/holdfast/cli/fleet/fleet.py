"""`holdfast fleet`: other machines: which there are, whether they can be used, what became of what.

The words `start`, `relay`, `output`, `node`, `attend` and `hand` are a node's own side of it: a
submitter runs them, over ssh or an engine.
"""

from __future__ import annotations

from holdfast.errors import WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

# verb: how many words follow, at least and at most
_OF_SUBMITTERS = {"nodes": (0, 0), "check": (1, 1), "recover": (0, 0), "give-up": (1, 1)}
_OF_NODES = {
    "start": (0, 0),
    "relay": (0, 1),
    "output": (2, 2),
    "node": (0, 0),
    "attend": (0, 0),  # in a Slurm job
    "hand": (1, 1),
}


def add_arguments(parser: Parser) -> None:
    """What to do, to what."""
    parser.add_argument(
        "words",
        metavar="VERB",
        nargs="*",
        help="nodes, check WHERE, recover, give-up RUN",
    )
    parser.add_argument("--reason", metavar="TEXT", help="give-up: why it is known to be gone")
    parser.epilog = (
        "holdfast fleet nodes            every node that has answered\n"
        "holdfast fleet check WHERE      try what a run there needs, and name what is wrong\n"
        "holdfast fleet recover          go on with placements whose submitter was killed\n"
        "holdfast fleet give-up RUN      assert that it is gone: it is lost, its key is free\n"
        "start, relay, output, node, attend and hand are run by submitters, on the node.\n"
        "exit codes: 1 check found something wrong, 3 no such run, 4 refused, 6 no answer"
    )


def run(args: Namespace) -> int:
    """Do it."""
    verb, *words = args.words or [""]
    verbs = {**_OF_SUBMITTERS, **_OF_NODES}
    if verb not in verbs:
        raise WrongUse(f"fleet: unknown verb {verb!r}", hint="holdfast fleet --help lists them")
    least, most = verbs[verb]
    if not least <= len(words) <= most:
        raise WrongUse(f"fleet {verb}: {len(words)} words", hint="holdfast fleet --help")
    if verb in _OF_NODES:
        from holdfast.cli.fleet.node_side import serve

        return serve(verb, words, args)
    from holdfast.cli.fleet.overseeing import oversee

    return oversee(verb, words, args)
