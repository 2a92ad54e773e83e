"""`holdfast mcp`: an MCP server on stdio, for the agent that starts it."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.errors import InvalidOption, Unavailable, WrongUse, name_arguments
from holdfast.mcp.tags import tags_of
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

JSON = False


def add_arguments(parser: Parser) -> None:
    """What it may do, and to which runs."""
    parser.add_argument(
        "--allow-actions",
        action="store_true",
        help="offer tools that start, stop and change runs too; else it only looks",
    )
    parser.add_argument(
        "--tag",
        metavar="K=V",
        action="append",
        help="only runs with this tag exist for it, and what it starts has it",
    )
    parser.add_argument(
        "--approve-only",
        action="store_true",
        help="nothing but approve_tool: what `run --approve ask claude -p` hands over",
    )
    parser.add_argument(
        "--print-config",
        metavar="AGENT",
        help="print what to add to the settings of claude, codex or gemini, and exit",
    )
    parser.epilog = (
        "It speaks on stdin and stdout until stdin ends; runs live on without it. docs/mcp.md has\n"
        "the tools. Needs the extra: pip install 'holdfast[mcp]'."
    )


def run(args: Namespace) -> int:
    """Serve, or print the settings."""
    tags = tags_of(args.tag or (), "--tag")
    if args.approve_only and (args.allow_actions or tags):
        raise WrongUse("--approve-only offers nothing that other options are about")
    if args.print_config is not None:
        return _print_config(args)
    if sys.stdin is None or sys.stdout is None:
        raise WrongUse("mcp speaks on stdin and stdout, and one of them is closed")
    name_arguments()
    if args.approve_only:
        from holdfast.mcp.approve_server import serve_approvals

        serve_approvals()
        return 0
    try:
        from holdfast.mcp.scope import Access, Scope
        from holdfast.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("holdfast"):
            raise
        raise Unavailable(
            f"holdfast mcp needs a package that is not installed: {error.name}",
            hint="pip install 'holdfast[mcp]'",
        ) from None
    access = Access(acts=args.allow_actions, starts=args.allow_actions)
    serve_stdio(Scope(Home.locate(), tags), access)
    return 0


def _print_config(args: Namespace) -> int:
    from holdfast.mcp.client_config import AGENTS, client_config

    if args.print_config not in AGENTS:
        raise InvalidOption(
            f"--print-config: {args.print_config!r} is none of {', '.join(AGENTS)}",
            option="print-config",
            value=args.print_config,
        )
    options = ["--allow-actions"] if args.allow_actions else []
    options += [word for text in args.tag or () for word in ("--tag", text)]
    found = client_config(args.print_config, options)
    streams.say(found.text)
    if not args.quiet:
        streams.complain(f"add this to {found.where}")
    return 0
