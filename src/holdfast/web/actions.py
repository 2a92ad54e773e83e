"""What the API does: each action is the library's, with its refusals. Done in threads."""

from __future__ import annotations

import base64

from holdfast.errors import InvalidOption, Refused, WrongUse
from holdfast.manage.aio import AsyncRuns, run_steps_async
from holdfast.manage.changing.adjusting import adjust_run
from holdfast.manage.changing.answering import answer_run, only_question
from holdfast.manage.changing.stop_attempt import Attempted, attempt
from holdfast.manage.recovery import recover_run
from holdfast.process.signals import parse_signal, signal_name
from holdfast.run.units import parse_duration
from holdfast.web.elsewhere import elsewhere
from holdfast.web.request_fields import fields
from holdfast.web.request_peers import tokens_behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.run import Run
    from holdfast.web.reads import Reads
    from holdfast.web.settings import ServeSettings

    Json = dict[str, Any]
    Do = Callable[["Actions", Run, Json], Awaitable[Json]]
    Answer = Callable[["Actions", Run, Json, list[str]], Awaitable[Json]]

_TIME = (str, int, float)
MOST_SENT_BYTES = 64 << 10


class Actions:
    """What may be done to the runs of a home."""

    def __init__(self, settings: ServeSettings, reads: Reads) -> None:
        self._settings = settings
        self._reads = reads
        self._runs = AsyncRuns(settings.home)

    async def start(self, document: Json) -> Json:
        """A new run; the fields are the library's keywords."""
        self._check_may_start("start")
        argv = document.pop("argv", None)
        if not isinstance(argv, list) or not all(isinstance(one, str) for one in argv) or not argv:
            raise InvalidOption("argv: a list of texts, the command and its words", option="argv")
        inner = {"self", "given", "given_by", "resumed_from"}.intersection(document)
        if inner:
            raise InvalidOption(f"{min(inner)}: no such field", option=min(inner))
        run = await self._runs.start(argv, **document)
        return self._shown(run.id)

    async def act(self, verb: str, ref: str, document: Json, connection: Any = None) -> Json:
        """One of `ACTIONS` or `ANSWERS` on one run."""
        if verb in STARTING:
            self._check_may_start(verb)
        run = self._reads.run(ref)
        if verb in ANSWERS:
            done = await ANSWERS[verb](self, run, document, tokens_behind(connection))
        else:
            done = await ACTIONS[verb](self, run, document)
        if run.is_elsewhere:
            self._reads.elsewhere.look_again(run.id)
        return done

    async def remove(self, ref: str, *, stop: bool, force: bool) -> Json:
        run = self._reads.run(ref)
        removed = await run._as_async().remove(stop=stop, force=force)
        abandoned = [one.as_dict() for one in removed.abandoned]
        done = {**removed.as_dict(), "abandoned": abandoned}
        return {"schema": 1, "id": run.id, "removed": done}

    def _check_may_start(self, verb: str) -> None:
        if not self._settings.may_start:
            raise Refused(
                f"{verb} runs code, which this server is not to do",
                hint="holdfast serve --allow-start",
            )

    def _shown(self, run_id: str) -> Json:
        return self._reads.one_run(run_id)

    async def _stop(self, run: Run, document: Json) -> Json:
        given = fields(document, {"grace": _TIME, "signal": (str,)})
        grace = None if "grace" not in given else parse_duration(str(given["grace"]), "grace")
        signal = None if "signal" not in given else signal_name(parse_signal(given["signal"]))
        if run.is_elsewhere:
            return await self._stop_elsewhere(elsewhere(run), grace, signal)
        one = Attempted(run.id, run)
        await run_steps_async(attempt(one, grace, signal))
        done = one.to_json()
        return {**done, "stop": {**done["stop"], "said": one.sentence(), "hint": one.hint()}}

    async def _stop_elsewhere(
        self, run: RemoteRun, grace: float | None, signal: str | None
    ) -> Json:
        """By its own shim; what its node said of it, as of a run here."""
        cleanup = await run._as_async().stop(grace, signal)
        survivors = [one.to_json() for one in cleanup.survivors]
        where = run.placement.where
        said = f"NOT stopped: {len(survivors)} are alive" if survivors else f"stopped on {where}"
        hint = f"holdfast stop {run.id}" if survivors else None
        stop = {"survivors": survivors, "said": said, "hint": hint, "error": None}
        return {**run.info().to_json(), "stop": stop}

    async def _pause(self, run: Run, document: Json) -> Json:
        fields(document, {})
        await run._as_async().pause()
        return self._shown(run.id)

    async def _unpause(self, run: Run, document: Json) -> Json:
        fields(document, {})
        await run._as_async().unpause()
        return self._shown(run.id)

    async def _resume(self, run: Run, document: Json) -> Json:
        given = fields(document, {"prompt": (str,)})
        return self._shown((await run._as_async().resume(given.get("prompt"))).id)

    async def _rerun(self, run: Run, document: Json) -> Json:
        fields(document, {})
        return self._shown((await run._as_async().rerun()).id)

    async def _recover(self, run: Run, document: Json) -> Json:
        fields(document, {})
        if run.is_elsewhere:
            where = elsewhere(run).placement.where
            raise Refused(
                f"it is on {where}, whose own holdfast recovers it",
                hint="holdfast recover, there",
                run=run.id,
            )
        found = await run_steps_async(recover_run(run.directory))
        done = None if found is None else found.to_json()
        return {**self._shown(run.id), "recovered": done}

    async def _adjust(self, run: Run, document: Json, asked_by: list[str]) -> Json:
        if not document:
            raise WrongUse("adjust: which limits?", hint='{"timeout": "2h"}')
        if "self" in document:
            raise InvalidOption("self: no such field", option="self")
        if run.is_elsewhere:
            adjusted = await run._as_async().adjust(**document)
        else:
            steps = adjust_run(run.directory, document, asked_by=asked_by)
            adjusted = await run_steps_async(steps)
        return {**self._shown(run.id), "adjusted": adjusted.as_dict()}

    async def _send(self, run: Run, document: Json, asked_by: list[str]) -> Json:
        given = fields(document, {"text": (str,), "base64": (str,)})
        if len(given) != 1:
            raise WrongUse("send: text, or base64")
        data = _bytes(given)
        if len(data) > MOST_SENT_BYTES:
            raise InvalidOption(f"text: at most {MOST_SENT_BYTES} bytes", option="text")
        if run.is_elsewhere:
            await run._as_async().send(data)
        else:
            await run_steps_async(run._send_for(data, asked_by))
        return {"schema": 1, "id": run.id, "sent_bytes": len(data)}

    async def _approve(self, run: Run, document: Json, asked_by: list[str]) -> Json:
        given = fields(document, {"id": (str,)})
        return await self._answer(run, given, asked_by, allow=True)

    async def _deny(self, run: Run, document: Json, asked_by: list[str]) -> Json:
        given = fields(document, {"id": (str,), "message": (str,)})
        return await self._answer(run, given, asked_by, allow=False)

    async def _answer(self, run: Run, given: Json, asked_by: list[str], *, allow: bool) -> Json:
        question = given.get("id") or self._only(run)
        message = given.get("message")
        if not run.is_elsewhere:
            steps = answer_run(
                run.directory, question, allow=allow, message=message, asked_by=asked_by
            )
            answered = await run_steps_async(steps)
        elif allow:
            answered = await run._as_async().approve(question)
        else:
            answered = await run._as_async().deny(question, message)
        return {"schema": 1, "id": run.id, "answered": answered.as_dict()}

    def _only(self, run: Run) -> str:
        """A question must be named: who answers must have read it."""
        asked = only_question(run.info())
        raise Refused(
            f"it asks: {asked['text']}", hint=f"answer it by its id, {asked['id']}", run=run.id
        )


def _bytes(given: Json) -> bytes:
    if "text" in given:
        try:
            return str(given["text"]).encode()
        except UnicodeEncodeError:
            what = "text: it has a lone surrogate, which no text has"
            raise InvalidOption(what, hint="base64 sends any bytes", option="text") from None
    try:
        return base64.b64decode(given["base64"], validate=True)
    except ValueError:  # binascii.Error is one
        raise InvalidOption("base64: it is not", option="base64") from None


STARTING = frozenset({"resume", "rerun", "send"})
ACTIONS: dict[str, Do] = {
    "stop": Actions._stop,
    "pause": Actions._pause,
    "unpause": Actions._unpause,
    "resume": Actions._resume,
    "rerun": Actions._rerun,
    "recover": Actions._recover,
}
ANSWERS: dict[str, Answer] = {  # from outside of the run alone; of limits, its budget
    "adjust": Actions._adjust,
    "send": Actions._send,
    "approve": Actions._approve,
    "deny": Actions._deny,
}
