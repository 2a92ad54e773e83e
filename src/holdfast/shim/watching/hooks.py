"""Reads what an agent's hooks report through the run's socket. Input from outside: checked.

A report is taken from a proven member of the run's tree alone; nonsense is refused, and the run is
not affected.
"""

from __future__ import annotations

import binascii
import json

from holdfast.agents.facts import ResultRead, SessionFound
from holdfast.agents.json_lines import session_id_at, text_at
from holdfast.agents.profile import value_at
from holdfast.agents.templates import fill
from holdfast.process.ancestry import climb
from holdfast.process.clock import boottime
from holdfast.process.held import hold_here
from holdfast.run.redaction import redact_text
from holdfast.shim.watching.attention import Attention, ReportedQuestion
from holdfast.shim.watching.peers import Peers
from holdfast.wrappers import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.profile import HookRule, HookRules
    from holdfast.process.identity import HeldProcess
    from holdfast.shim.control import Client
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.watching.agent_watch import AgentWatch

    Json = dict[str, Any]

MOST_ENCODED = 128 << 10  # of one report: twice what the hook program sends
MOST_TEXT = 16 << 10  # of a question


class AgentHooks:
    """The reports of one run's agent."""

    def __init__(
        self, supervisor: Supervisor, rules: HookRules, watch: AgentWatch, *, talks: bool
    ) -> None:
        """`talks`: there is a person to talk to, so a turn that is over waits for the next one."""
        self._rules = rules
        self._supervisor = supervisor
        self._watch = watch
        self._talks = talks
        self._peers = Peers(supervisor)
        self.attention = Attention(supervisor, rules)

    def take(self, client: Client, request: Json) -> None:
        """One report; ValueError, or another error that is answered, for what is not one."""
        asker = self._peers.hold_member(client)
        agent = None
        try:
            report, rule = self._read(request)
            agent = _agent_above(asker)
            self._refuse_another(agent)
            self._watch.take_reported(self._facts(report, rule))
            if rule is not None and rule.asks is not None:
                self.attention.go_on()
                asked, agent_of_it = self._asked(request, report, rule), agent
                agent = None  # the question closes it
                self.attention.ask(asked, client, agent_of_it)
                return
            self._note(report, rule, request)
        finally:
            asker.close()
            if agent is not None:
                agent.close()
        client.answer({"ok": True})

    def _refuse_another(self, agent: HeldProcess | None) -> None:
        """What is handed over as a variable reaches agents that the run's own agent starts."""
        own = self._supervisor.journal.facts.attempt.workload_identity
        is_other = agent is not None and own is not None and agent.identity != own
        if self._rules.variable is not None and is_other:
            raise ValueError("another agent inside the run reports, not the run's own")

    def _read(self, request: Json) -> tuple[Json, HookRule | None]:
        encoded, name = request.get("base64"), request.get("id")
        if type(encoded) is not str or len(encoded) > MOST_ENCODED:
            raise ValueError("not a report, or too large")
        if type(name) is not str or not 8 <= len(name) <= 64 or not name.isalnum():
            raise ValueError("a report has an id")
        try:
            report = json.loads(binascii.a2b_base64(encoded))
        except RecursionError:
            report = None
        if type(report) is not dict:
            raise ValueError("a report is a JSON object")
        for rule in self._rules.report:
            if rule.when.match is not None and rule.when.match.holds(report):
                return report, rule
        return report, None

    def _facts(self, report: Json, rule: HookRule | None) -> list[SessionFound | ResultRead]:
        facts: list[SessionFound | ResultRead] = []
        session = session_id_at(report, self._rules.session)
        if session is not None:
            facts.append(SessionFound(session))
        text = text_at(report, rule.result) if rule is not None else None
        if rule is not None and text is not None:
            facts.append(ResultRead(text, rule.failed))
        return facts

    def _asked(self, request: Json, report: Json, rule: HookRule) -> ReportedQuestion:
        text = redact_text(fill(rule.text, report)).encode("utf-8", "replace").decode()
        is_cut = len(text) > MOST_TEXT
        at = _time(request)
        key = self._key(report, rule)
        about, shown = str(rule.asks), text[:MOST_TEXT]
        return ReportedQuestion(request["id"], about, shown, is_cut, key, at, rule.alone)

    def _note(self, report: Json, rule: HookRule | None, request: Json) -> None:
        if rule is None:
            return
        if rule.begins_turn:
            self.attention.clear()
        if rule.ends_turn and self._talks:
            self.attention.turn_over()
        elif rule.settles:
            self.attention.go_on()
            self.attention.settle(self._key(report, rule), _time(request))

    def _key(self, report: Json, rule: HookRule) -> str:
        """What tells one question from another: the values themselves may be long, or secret."""
        said = [value_at(report, path) for path in rule.key or self._rules.key]
        text = json.dumps(said, sort_keys=True).encode()
        return f"{binascii.crc32(text):08x}-{len(text)}"


def _time(request: Json) -> float:
    at = request.get("at")
    return at if isinstance(at, float) else boottime()


def _agent_above(asker: HeldProcess) -> HeldProcess | None:
    """The process that waits for the hook: the first above it that is no shell."""
    for number, one in enumerate(climb(asker)):
        stat = one.read_stat()
        if number and stat is not None and stat.comm not in SHELLS:
            return hold_here(one.identity)
    return None
