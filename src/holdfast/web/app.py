"""The application: which path leads where. `make_app` is all that a server needs.

Further applications can be mounted below it: they stand behind the same guard, so a request needs
the token and the right Host and Origin there too.
"""

from __future__ import annotations

import contextlib
import logging
import os

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.errors import HoldfastError
from holdfast.manage.reading.disk_threads import DiskThreads
from holdfast.run.home import Home
from holdfast.web.actions import ACTIONS, ANSWERS, Actions
from holdfast.web.feed import EventFeed
from holdfast.web.guard import READING, Guard
from holdfast.web.openapi import openapi
from holdfast.web.outputs import Outputs
from holdfast.web.reads import SELECTORS, Reads
from holdfast.web.request_fields import AskedQuery, read_document
from holdfast.web.request_peers import CONNECTION
from holdfast.web.responses import answer, error_answer, refuse
from holdfast.web.screens import screen_of
from holdfast.web.streams import OpenStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Any, Protocol

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from holdfast.web.settings import ServeSettings

    class MountedApp(Protocol):
        """An ASGI application that is told when the server ends."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

        async def end(self) -> None: ...


API = "/api/v1"
STATIC = os.path.join(os.path.dirname(__file__), "static")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_app(settings: ServeSettings, mounts: Mapping[str, MountedApp] | None = None) -> Guard:
    """The whole application. `mounts`: further ones, by their path."""
    routes = _Routes(settings)
    api = [*routes.api(), Route("/metrics", routes.metrics), Route("/", routes.page)]
    app = Starlette(
        routes=[
            *api,
            *(Mount(path, app=below) for path, below in (mounts or {}).items()),
            Mount("/static", app=StaticFiles(directory=STATIC)),
        ],
        lifespan=routes.lifespan,
        exception_handlers={
            405: _wrong_method(api),
            HTTPException: _http_error,
            HoldfastError: _error,
            Exception: _error,
        },
    )
    return Guard(app, settings)


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = {404: ("not-found", "there is nothing at this path")}
    shown = refuse(status, *said.get(status, ("wrong-use", "this can't be done")))
    shown.headers.update(getattr(error, "headers", None) or {})
    return shown


def _wrong_method(routes: Sequence[Route]) -> Callable[[Request, Exception], Any]:
    """Says which methods a path has: several routes may share one."""

    async def refused(request: Request, _: Exception) -> Response:
        here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
        known = sorted({name for route in here for name in route.methods or ()}) or [*READING]
        what, hint = f"this path has no {request.method[:20]}", f"it has {', '.join(known)}"
        shown = refuse(405, "wrong-method", what, hint)
        shown.headers["allow"] = ", ".join(known)
        return shown

    return refused


async def _error(_: Request, error: Exception) -> Response:
    if not isinstance(error, (HoldfastError, OSError)):
        logging.getLogger("holdfast").error("a request failed", exc_info=error)
    return error_answer(error)


class _Routes:
    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._apart = DiskThreads()
        self._feed = EventFeed(Home.locate(settings.home))
        self._reads = Reads(settings)
        self._actions = Actions(settings, self._reads)
        self._streams = OpenStreams(settings)
        self._outputs = Outputs(settings, self._reads, self._streams, self._apart)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        take = self._feed.take_elsewhere
        async with self._feed.running(), self._reads.elsewhere.running(take):
            yield

    def api(self) -> list[Route]:
        below = {
            "/runs/{ref}/output": self._outputs.get,
            "/runs/{ref}/tree": self._seen(self._reads.tree),
            "/runs/{ref}/samples": self._seen(self._reads.samples),
            "/runs/{ref}/signals": self._seen(self._reads.signals),
            "/runs/{ref}/report": self._seen(self._reads.report),
            "/runs/{ref}/screen": self._seen(lambda ref: screen_of(self._reads.run(ref))),
            "/runs/{ref}/events": self._events_of_run,
            "/queues": self._queues,
            "/usage": self._usage,
            "/health": self._health,
            "/events": self._events,
            "/openapi.json": self._openapi,
        }
        routes = [Route(f"{API}{path}", get, methods=["GET"]) for path, get in below.items()]
        routes += [
            Route(f"{API}/runs", self._list, methods=["GET"]),
            Route(f"{API}/runs/{{ref}}", self._seen(self._reads.one_run), methods=["GET"]),
        ]
        if not self._settings.is_read_only:
            routes += [
                Route(f"{API}/runs", self._start, methods=["POST"]),
                Route(f"{API}/runs/{{ref}}", self._remove, methods=["DELETE"]),
                *(Route(f"{API}/runs/{{ref}}/{verb}", self._act(verb), methods=["POST"])
                  for verb in (*ACTIONS, *ANSWERS)),
            ]  # fmt: skip
        return routes

    def _seen(self, read: Any) -> Any:
        """An endpoint about one run that takes no parameter."""

        async def get(request: Request) -> Response:
            AskedQuery(request)
            ref = request.path_params["ref"]
            return answer(await self._apart_for(ref).do(read, ref))

        return get

    def _apart_for(self, ref: str) -> DiskThreads:
        return self._reads.elsewhere.apart_for(ref) or self._apart

    async def _list(self, request: Request) -> Response:
        asked = AskedQuery(request, *SELECTORS)
        apart = self._apart_for("")  # a ledger may be slow
        return answer(await apart.do(self._reads.page_of_runs, asked))

    async def _events_of_run(self, request: Request) -> Response:
        asked = AskedQuery(request, "since", "limit")
        ref = request.path_params["ref"]
        return answer(await self._apart_for(ref).do(self._reads.events, ref, asked))

    async def _queues(self, request: Request) -> Response:
        AskedQuery(request)
        return answer(await self._apart.do(self._reads.queues))

    async def _usage(self, request: Request) -> Response:
        asked = AskedQuery(request, "since", "by")
        return answer(await self._apart.do(self._reads.usage, asked))

    async def _health(self, request: Request) -> Response:
        AskedQuery(request)
        return answer(await self._apart.do(self._reads.health))

    async def _openapi(self, request: Request) -> Response:
        AskedQuery(request)
        return answer(openapi(self._settings))

    async def _events(self, request: Request) -> Response:
        asked = AskedQuery(request, "last_event_id")
        last = request.headers.get("last-event-id") or asked.text("last_event_id")
        return self._streams.answer(
            "events", self._settings.most_streams, self._feed.messages(last)
        )

    async def metrics(self, request: Request) -> Response:
        AskedQuery(request)
        text = await self._apart.do(self._reads.metrics)
        return Response(text, headers={"content-type": METRICS_TYPE})

    async def page(self, _: Request) -> Response:
        with open(os.path.join(STATIC, "index.html"), "rb") as file:
            return Response(file.read(), media_type="text/html")

    # What acts

    async def _start(self, request: Request) -> Response:
        AskedQuery(request)
        document = await read_document(request)
        return answer(await self._apart.run(lambda: self._actions.start(document)), 201)

    async def _remove(self, request: Request) -> Response:
        asked = AskedQuery(request, "stop", "force")
        ref, stop, force = request.path_params["ref"], asked.flag("stop"), asked.flag("force")
        done = await self._apart.run(lambda: self._actions.remove(ref, stop=stop, force=force))
        return answer(done)

    def _act(self, verb: str) -> Any:
        async def post(request: Request) -> Response:
            AskedQuery(request)
            ref, document = request.path_params["ref"], await read_document(request)
            connection = request.scope.get("state", {}).get(CONNECTION)
            return answer(
                await self._apart.run(lambda: self._actions.act(verb, ref, document, connection))
            )

        return post
