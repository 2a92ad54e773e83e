"""`holdfast serve`: a live page, an API and /metrics, for this user on this machine."""

from __future__ import annotations

import functools
import os

from holdfast.cli.text import streams
from holdfast.errors import InvalidOption, Unavailable, WrongUse
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.web.app import MountedApp
    from holdfast.web.settings import ServeSettings

PORT = 8731
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_EPILOG = """\
It listens on 127.0.0.1 and prints a URL with a token in its fragment, which no browser sends on.
The token is kept in the state directory (serve.token, 0600): who has it can do what you can do
here. Any program that runs as you can read it. --read-only shows and does nothing.

What runs code (start, rerun, resume, send) needs --allow-start. Another address needs --listen and
--token-file, and is not encrypted: an SSH tunnel is better (ssh -L 8731:127.0.0.1:8731 HOST)."""


def add_arguments(parser: Parser) -> None:
    """Where, and what it may do."""
    parser.add_argument("--port", metavar="N", help=f"on 127.0.0.1 ({PORT}; 0: a free one)")
    parser.add_argument("--socket", metavar="PATH", help="a unix socket instead, for you alone")
    parser.add_argument("--listen", metavar="HOST:PORT", help="another address; NOT encrypted")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name that requests may have in Host, beside localhost and the address",
    )
    parser.add_argument("--token-file", metavar="F", help="the token is in this file (0600)")
    parser.add_argument("--read-only", action="store_true", help="show; do nothing")
    parser.add_argument(
        "--allow-start", action="store_true", help="also start, rerun, resume and send"
    )
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Serve until ctrl-c."""
    _refuse_contradictions(args)
    try:
        from holdfast.web.server import run_server
    except ImportError as error:
        raise Unavailable(
            f"serve needs a package that is not installed: {error.name}",
            hint="pip install 'holdfast[web]'",
        ) from None
    home = Home.locate().prepare()
    listening, url, host = _open(args)
    with listening:
        try:
            settings = _settings(args, home, host)
            ready = functools.partial(_tell, args, url, settings.token)
            run_server(settings, listening, ready, _mounts(settings, home))
        finally:
            _remove_socket(args.socket)
    return 0


def _remove_socket(path: str | None) -> None:
    try:
        if path is not None:
            os.unlink(path)
    except OSError:  # somebody else has; or the next server will
        pass


def _mounts(settings: ServeSettings, home: Home) -> dict[str, MountedApp]:
    """The MCP server; it is asked by POST, so a server that only shows has none."""
    if settings.is_read_only:
        return {}
    from holdfast.mcp.http import MountedServer
    from holdfast.mcp.scope import Access

    access = Access(acts=True, starts=settings.may_start, is_near=False)
    return {"/mcp": MountedServer(home, access)}


def _refuse_contradictions(args: Namespace) -> None:
    places = [name for name in ("port", "socket", "listen") if getattr(args, name) is not None]
    if len(places) > 1:
        raise WrongUse(f"--{places[0]} and --{places[1]} both say where", hint="use one of them")
    if args.read_only and args.allow_start:
        raise WrongUse("--read-only and --allow-start contradict each other")
    if args.listen is not None and args.token_file is None:
        raise WrongUse(
            "--listen lets other machines in: it needs a token that you chose to hand out",
            hint="--token-file F, a file of yours with mode 0600",
        )


def _open(args: Namespace) -> tuple[socket.socket, str, str]:
    """The socket, its URL, and the host that it listens on; empty: no address."""
    from holdfast.web.server import listen_at, listen_on

    if args.socket is not None:
        return listen_at(args.socket), f"unix:{args.socket}", ""
    host, port = "127.0.0.1", PORT if args.port is None else _port(args.port, "--port")
    if args.listen is not None:
        host, colon, text = args.listen.rpartition(":")
        if not colon or not host:
            raise InvalidOption(f"--listen: {args.listen!r} is not HOST:PORT", option="listen")
        port = _port(text, "--listen")
    host = host.strip("[]")
    opened = listen_on(host, port)
    shown = f"[{host}]" if ":" in host else host
    return opened, f"http://{shown}:{opened.getsockname()[1]}/", host


def _port(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise InvalidOption(f"{option}: {text!r} is no port", option=option.lstrip("-"))
    return int(text)


def _settings(args: Namespace, home: Home, host: str) -> ServeSettings:
    from holdfast.web.settings import ServeSettings
    from holdfast.web.token import how_to_make, own_token, read_token

    try:
        token = own_token(home) if args.token_file is None else read_token(args.token_file)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        if isinstance(error, FileNotFoundError) and args.token_file is not None:
            raise WrongUse(why, hint=how_to_make(args.token_file)) from None
        raise Unavailable(why) from None
    usual = ServeSettings(home.path, token)
    own = {f"[{host}]" if ":" in host else host.lower()} if host else set()
    return usual.replace(
        hosts=usual.hosts | own | {name.lower() for name in args.allow_host or ()},
        any_address=host in ("0.0.0.0", "::"),
        is_read_only=args.read_only,
        may_start=args.allow_start,
    )


def _tell(args: Namespace, url: str, token: str) -> None:
    if args.json:
        streams.say_json({"schema": 1, "url": url, "token": token, "pid": os.getpid()})
    elif args.socket is not None:
        streams.say(url)
    else:
        streams.say(f"{url}#token={token}")
    streams.flush()
    if args.listen is not None and url.split("/")[2].rsplit(":", 1)[0].strip("[]") not in _LOOPBACK:
        streams.warn("what goes over this address is not encrypted, the token too")
    if not (args.quiet or args.json):
        streams.complain("ctrl-c ends it; the runs go on")
