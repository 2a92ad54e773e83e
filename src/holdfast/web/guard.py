"""What every request must pass: Host, Origin, token, method, size, time. Nothing else decides it.

Host is checked against DNS rebinding, Origin against other sites and the dev servers of agents on
other ports; there is no cookie, so a browser adds nothing by itself. The page's own files hold no
data and need no token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress

from starlette.requests import Request

from holdfast.web.responses import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdfast.web.settings import ServeSettings

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
READING = ("GET", "HEAD")


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app = app
        self._settings = settings
        self._under_way: set[asyncio.Task[None]] = set()
        self.is_leaving = False  # the server ends: what is cut short is no fault

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._under_way)

    def leave(self) -> None:
        """The server ends: so does every request that is under way, with a word about it."""
        self.is_leaving = True
        for task in self._under_way:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        sending = _SafeSend(send)
        request = Request(scope)
        refused = self._refuse(request)
        body: list[Message] = []
        if refused is None and request.method not in READING:
            refused = await self._read_body(request, receive, body)
        if refused is not None:
            refused.headers["connection"] = "close"  # what is unread of its body is not a request
            await refused(scope, receive, sending)
            return
        task: asyncio.Task[None] = asyncio.current_task()  # type: ignore[assignment]
        self._under_way.add(task)
        try:
            await self._app(scope, _replayed(body, receive) if body else receive, sending)
        except asyncio.CancelledError:
            if not self.is_leaving:
                raise
            task.uncancel()
        finally:
            self._under_way.discard(task)
        if self.is_leaving and not sending.is_begun:
            await refuse(503, "unavailable", "this server ends")(scope, receive, sending)
        elif self.is_leaving and not sending.is_over:  # a stream: that was all of it
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _refuse(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_our_host(hosts[0]):
            return refuse(421, "wrong-host", "this server is not called that in the Host header")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            return refuse(403, "wrong-origin", "a page of another origin may not ask")
        site = request.headers.get("sec-fetch-site", "none")
        is_page = _is_page(request.url.path)
        if site not in ("none", "same-origin") and not (is_page and request.method in READING):
            return refuse(403, "wrong-origin", "a page of another site may not ask")
        if not is_page and not self._has_token(request):
            answer = refuse(401, "no-token", "this needs the token", "Authorization: Bearer TOKEN")
            answer.headers["www-authenticate"] = 'Bearer realm="holdfast"'
            return answer
        if request.method not in READING and self._settings.is_read_only:
            answer = refuse(405, "read-only", "this server only shows", "serve without --read-only")
            answer.headers["allow"] = ", ".join(READING)
            return answer
        return None

    def _is_our_host(self, host: str) -> bool:
        name = _without_port(host.lower())
        if name in self._settings.hosts:
            return True
        if not self._settings.any_address:
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        ours = self._settings.token.encode()
        return hmac.compare_digest(given.strip().encode(), ours) and scheme.lower() == "bearer"

    async def _read_body(
        self, request: Request, receive: Receive, body: list[Message]
    ) -> Response | None:
        """All of it, within its bounds, before anything acts on it."""
        most, size = self._settings.most_body_bytes, 0
        too_large = refuse(413, "too-large", f"a body of at most {most} bytes")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            return too_large
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    body.append(message)
                    size += len(message.get("body", b""))
                    if size > most:
                        return too_large
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return None
        except TimeoutError:
            return refuse(408, "too-slow", "the body did not arrive in time")


class _SafeSend:
    """Passes an answer on, with our headers, and knows how far it is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = self.is_over = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_begun = True
            own = {name for name, _ in message.get("headers", ())}
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            fresh = [one for one in added if one[0] not in own]
            message["headers"] = [*message.get("headers", ()), *fresh]
        elif not message.get("more_body"):
            self.is_over = True
        await self._send(message)


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/static/") or path == "/favicon.ico"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _replayed(body: list[Message], receive: Receive) -> Receive:
    messages = iter(body)

    async def replay() -> Message:
        message = next(messages, None)
        return await receive() if message is None else message

    return replay
