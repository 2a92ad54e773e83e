"""What an agent waits for from a person: recorded when it begins and when it is over.

A question lasts as long as the connection of its hook, for which the agent waits. The hook process
may be cancelled at the agent's prompt, or be killed. After an adoption it connects again with the
same question id. A sent answer is final, also if the hook acknowledges it late; it counts then.
A hook that can't decide, or whose agent shows no prompt while it waits, is released at once, and
later reports end the question.
"""

from __future__ import annotations

import os

from holdfast.lean import json_text
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.profile import HookRules
    from holdfast.process.identity import HeldProcess
    from holdfast.shim.control import Client
    from holdfast.shim.supervisor import Supervisor

    Json = dict[str, Any]

TURN_OVER = "turn_over"
MOST_OPEN = 32
MOST_IN_A_MINUTE = 120
REDIAL_SECONDS = 10.0  # for the askers of a run that was adopted
ACKNOWLEDGE_SECONDS = 4.0  # less than a client that answers waits


class ReportedQuestion(Record):
    """One report by which an agent asks."""

    id: str
    about: str  # permission, question
    text: str
    is_cut: bool
    key: str  # what it is about: the report that settles it has the same
    at: float  # boottime of the report
    is_alone: bool = False  # the agent has no prompt of its own: somebody has to decide


class _Answer(Record):
    client: Client | None  # that waits for what becomes of it
    how: str  # approved, denied
    by: Json
    message: str | None


class _Question:
    """One open question: the connection that asks, and the answer that was sent to it."""

    def __init__(self, asked: ReportedQuestion) -> None:
        self.asked = asked
        self.asker: Client | None = None
        self.agent: HeldProcess | None = None
        self.answer: _Answer | None = None


class Attention:
    """The open questions of one run."""

    def __init__(self, supervisor: Supervisor, rules: HookRules) -> None:
        self._supervisor = supervisor
        self._rules = rules
        self._open: dict[str, _Question] = {}
        self._asked_at: list[float] = []
        self._restore()

    def _restore(self) -> None:
        """Of a run that was taken over: its askers call again, or are gone."""
        for known in self._supervisor.journal.facts.attempt.attention:
            asked = ReportedQuestion(
                known["id"], known["about"], known.get("text") or "", False, known.get("key", ""), 0
            )
            self._open[asked.id] = _Question(asked)
        if self._open and self._holds:
            self._supervisor.loop.after("askers", REDIAL_SECONDS, self._drop_unheard)

    def _drop_unheard(self) -> None:
        for question in list(self._open.values()):
            if question.asker is None and question.asked.about != TURN_OVER:
                self._over(question, "unheard")

    @property
    def _holds(self) -> bool:
        """Whether the hook of a question waits for its answer."""
        is_asked = self._supervisor.spec.wanted.approve != "off"
        return self._rules.asking is not None and (is_asked or not self._rules.prompt_waits)

    # --- what the agent reports -----------------------------------------------------------

    def ask(self, asked: ReportedQuestion, asker: Client, agent: HeldProcess | None) -> None:
        """A question; ValueError where it can't be taken. Takes the agent's descriptor over."""
        question = self._open.get(asked.id)
        try:
            self._check(asked, question)
        except ValueError:
            if agent is not None:
                agent.close()
            raise
        is_new = question is None
        if question is None:
            question = self._open[asked.id] = _Question(asked)
        self._watch_agent(question, agent)
        if is_new:
            self._record(asked)
        if not self._holds:
            asker.answer({"ok": True})
            return
        question.asked, question.asker = asked, asker
        asker.on_close = lambda: self._left(question, asker)
        asker.answer({"ok": True, "hold": True})
        self._supervisor.guarded("approve", lambda: self._answer_by_option(question))

    def _check(self, asked: ReportedQuestion, known: _Question | None) -> None:
        if known is not None:
            was = known.asked
            same = (was.about, was.text, was.key) == (asked.about, asked.text, asked.key)
            if known.asker is not None or not same:
                raise ValueError("another question has that id")
            return
        now = boottime()
        self._asked_at = [at for at in self._asked_at if at > now - 60]
        if len(self._open) >= MOST_OPEN or len(self._asked_at) >= MOST_IN_A_MINUTE:
            raise ValueError("too many questions at once")
        self._asked_at.append(now)

    def _record(self, asked: ReportedQuestion) -> None:
        supervisor = self._supervisor
        said: Json = {"id": asked.id, "about": asked.about, "text": asked.text}
        more: Json = {"is_cut": True} if asked.is_cut else {}
        supervisor.journal.record(Kind.ATTENTION_NEEDED, **said, key=asked.key, **more)
        told = {"id": asked.id, "kind": asked.about, "text": asked.text}
        supervisor.guarded("notice", lambda: supervisor.tell("attention", attention=told))

    def _watch_agent(self, question: _Question, agent: HeldProcess | None) -> None:
        """A hook outlives an agent that is killed: then nobody asks any more."""
        self._let_go(question)
        question.agent = agent
        if agent is not None:
            over = lambda _events: self._over(question, "agent gone")  # noqa: E731
            self._supervisor.loop.watch_exit(agent.fd, "asker", over)

    def settle(self, key: str, at: float) -> None:
        """A tool has run, or was refused: nobody waits for that any more."""
        for question in list(self._open.values()):
            if question.asked.key == key and question.asked.at <= at:
                self._over(question, "answered")
                return

    def go_on(self) -> None:
        """Something goes on: the turn is not over."""
        for question in list(self._open.values()):
            if question.asked.about == TURN_OVER:
                self._over(question, "went on")

    def clear(self) -> None:
        """A turn begins, or the attempt is over: nothing of before is waited for."""
        for question in list(self._open.values()):
            self._over(question, "went on")

    def turn_over(self) -> None:
        """It waits for the next prompt."""
        if not any(one.asked.about == TURN_OVER for one in self._open.values()):
            asked = ReportedQuestion(
                os.urandom(6).hex(), TURN_OVER, "its turn is over", False, "", 0
            )
            self._open[asked.id] = _Question(asked)
            self._record(asked)

    # --- what a person says ---------------------------------------------------------------

    def answer(self, client: Client, request: Json, by: Json) -> None:
        """Approve or deny; the client is told so when the asker has acknowledged it."""
        question = self._open.get(str(request.get("id")))
        if question is None or question.asked.about == TURN_OVER:
            raise ValueError("nothing is asked under that id")
        if question.asked.about != "permission":
            raise ValueError("it is a question, which its terminal alone can answer")
        if self._supervisor.spec.wanted.approve != "ask" and not question.asked.is_alone:
            raise ValueError("it was not started with --approve ask: its own prompt is to answer")
        if question.answer is not None:
            raise ValueError(f"it was {question.answer.how}; the agent has not taken that yet")
        if question.asker is None:
            raise ValueError("only its own prompt is left")
        is_allowed = request.get("allow") is True
        message = request.get("message")
        how = "approved" if is_allowed else "denied"
        answer = _Answer(client, how, by, message if type(message) is str else None)
        self._decide(question, answer)
        self._supervisor.loop.after(
            f"answer {question.asked.id}",
            ACKNOWLEDGE_SECONDS,
            lambda: self._not_acknowledged(question),
        )

    def _decide(self, question: _Question, answer: _Answer) -> None:
        assert question.asker is not None
        question.answer = answer
        said = self._rules.allow if answer.how == "approved" else self._rules.deny
        message = answer.message or "Denied by the person who supervises this run."
        text = (said or "").replace("{message}", json_text(message))
        question.asker.answer({"ok": True, "print": text, "how": answer.how, "message": message})

    def _answer_by_option(self, question: _Question) -> None:
        wanted = self._supervisor.spec.wanted
        if question.asked.about != "permission":
            return
        if wanted.approve == "deny":
            told = "Denied: this run was started with --approve deny."
            self._deny_by("approve", question, told)
        elif wanted.approve == "ask" or question.asked.is_alone:
            self._supervisor.loop.after(
                f"asked {question.asked.id}",
                wanted.approve_timeout_seconds,
                lambda: self._leave_to_prompt(question),
            )

    def _deny_by(self, option: str, question: _Question, told: str) -> None:
        assert question.asker is not None
        self._decide(question, _Answer(question.asker, "denied", {"option": option}, told))

    def _leave_to_prompt(self, question: _Question) -> None:
        """It took too long: the agent's own prompt stays, and so does the need for somebody. Where
        there is none, it is denied."""
        if question.answer is not None or question.asked.id not in self._open:
            return
        if not question.asked.is_alone:
            self._release(question)
        elif question.asker is not None:
            self._deny_by("approve_timeout", question, "Denied: nobody answered in time.")

    def acknowledged(self, client: Client) -> None:
        """The asker has printed the decision."""
        for question in list(self._open.values()):
            if question.asker is client and question.answer is not None:
                answer, asked = question.answer, question.asked
                more = {} if answer.message is None else {"message": answer.message}
                self._over(question, answer.how, by=answer.by, **more)
                client.answer({"ok": True})
                if answer.client is not None and answer.client is not client:
                    done = {"id": asked.id, "text": asked.text, "how": answer.how}
                    answer.client.answer({"ok": True, **done})
                return
        raise ValueError("nothing was decided")

    def _not_acknowledged(self, question: _Question) -> None:
        """Whoever answered is let go; the answer may be read at any time, and stands."""
        answer = question.answer
        if answer is not None and answer.client is not None and question.asked.id in self._open:
            question.answer = answer.replace(client=None)
            error = f"{answer.how}, but the agent's hook has not taken that yet; the answer stands"
            answer.client.answer({"ok": False, "code": "stands", "error": error})

    # --- the end of one -------------------------------------------------------------------

    def _left(self, question: _Question, asker: Client) -> None:
        """The asker hung up: it was cancelled, or ended."""
        if question.asker is asker:
            question.asker = None
            self._over(question, "withdrawn")

    def _over(self, question: _Question, how: str, **more: Any) -> None:
        if self._open.pop(question.asked.id, None) is None:
            return
        self._supervisor.loop.cancel(f"asked {question.asked.id}")
        self._supervisor.loop.cancel(f"answer {question.asked.id}")
        self._supervisor.journal.record(Kind.ATTENTION_OVER, id=question.asked.id, how=how, **more)
        self._let_go(question)
        if how in ("approved", "denied"):
            if question.asker is not None:
                question.asker.on_close = None
            return
        answer, question.answer = question.answer, None
        if answer is not None and answer.client not in (None, question.asker):
            error = f"it was over before the agent took the answer ({how})"
            answer.client.answer({"ok": False, "code": "over", "error": error})
        self._release(question)

    def _release(self, question: _Question) -> None:
        """Let the asker go without a decision."""
        asker, question.asker = question.asker, None
        if asker is not None:
            asker.on_close = None
            asker.answer({"ok": True})

    def _let_go(self, question: _Question) -> None:
        agent, question.agent = question.agent, None
        if agent is not None:
            self._supervisor.loop.unwatch(agent.fd)
            agent.close()
