"""Words that Holdfast adds to an agent's command, and whether what they are for can be done at all.

The command itself stays as it was given: `RunSpec.added` says what is added where, and
`RunSpec.argv` is what is executed.
"""

from __future__ import annotations

from holdfast.agents.arguments import read_arguments
from holdfast.agents.budget import (
    Unseen,
    has_own_cost_option,
    why_cost_unseen,
    why_tokens_unseen,
)
from holdfast.agents.loader import load_profile
from holdfast.agents.recognition import locate
from holdfast.errors import Refused, argument
from holdfast.run.spec import dollars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.manage.starting.request import StartRequest
    from holdfast.options import Wanted


def hold_budget(request: StartRequest) -> None:
    """See that it can hold. One of [defaults] is for agents alone."""
    given = request.given_by or {}
    if request.agent is None:
        meant = {"max_tokens": "max_tokens", "max_cost": "max_cost_usd"}
        unmeant = {name: field for name, field in meant.items() if given.get(name) == "[defaults]"}
        request.wanted = request.wanted.replace(**dict.fromkeys(unmeant.values()))
        rest = {name: by for name, by in given.items() if name not in unmeant}
        request.given_by = rest or None
        if request.wanted.max_tokens is None and request.wanted.max_cost_usd is None:
            return
    words = AgentWords.for_start(request.agent, request.command, request.wanted)
    request.added = words.added
    request.warning = "; ".join(filter(None, (request.warning, words.warning)))


class AgentWords:
    """What is added for one agent; Refused when a budget that was asked for can't hold."""

    def __init__(self, agent: str | None, command: tuple[str, ...], wanted: Wanted) -> None:
        self.warning = ""
        self._words: list[str] = []
        self._cost_at: int | None = None
        self._wanted = wanted
        if agent is None:
            raise _no_agent(wanted)
        self._profile = load_profile(agent)
        located = locate(command)
        is_known = located is not None and located.agent == agent  # else a script starts it somehow
        self._arguments = located.arguments if located is not None and is_known else None
        is_plain = located is not None and (*located.program, *located.arguments) == command
        self._at = len(located.program) if located is not None and is_known and is_plain else None

    @classmethod
    def for_start(cls, agent: str | None, command: tuple[str, ...], wanted: Wanted) -> AgentWords:
        """What a new run is started with, and can hold."""
        words = cls(agent, command, wanted)
        if wanted.max_tokens is not None:
            words._hold_tokens()
        if wanted.max_cost_usd is not None:
            words._hold_cost(wanted.max_cost_usd)
        return words

    @classmethod
    def check_adjusted(
        cls, agent: str | None, command: tuple[str, ...], wanted: Wanted, fields: Iterable[str]
    ) -> None:
        """That these limits can hold for what runs already: no words can be added to that."""
        words = cls(agent, command, wanted)
        if words._arguments is None:
            return
        if "max_tokens" in fields:
            words._hold_tokens()
        unseen = why_cost_unseen(words._profile, words._arguments)
        if "max_cost_usd" in fields and unseen is not None:
            raise _unheld("max_cost", unseen)

    @property
    def added(self) -> dict[str, Any] | None:
        """For the spec."""
        if not self._words:
            return None
        return {"at": self._at, "words": self._words, "cost_at": self._cost_at}

    def _hold_tokens(self) -> None:
        if self._arguments is None:
            self._warn("max_tokens", "tokens")
            return
        is_split = self._wanted.split_stderr
        unseen = why_tokens_unseen(self._profile, self._arguments, is_split=is_split)
        if unseen is not None:
            raise _unheld("max_tokens", unseen)

    def _hold_cost(self, most: float) -> None:
        if self._arguments is None:
            self._warn("max_cost", "cost")
            return
        unseen = why_cost_unseen(self._profile, self._arguments)
        is_own = has_own_cost_option(self._profile, self._arguments)
        if is_own and self._wanted.on_budget == "stop":
            self._add_cost_option(most, is_needed=unseen is not None)
        elif unseen is not None:
            if is_own:
                own = f"at its own {self._profile.budget.cost_option} it ends, and can't be paused"
                unseen = Unseen(f"{unseen.why}; {own}")
            raise _unheld("max_cost", unseen)

    def _add_cost_option(self, most: float, *, is_needed: bool) -> None:
        option, own = str(self._profile.budget.cost_option), self._own_limit()
        if own is not None and own <= most:
            return
        if own is not None:
            raise Refused(
                f"{argument('max_cost')}: the command says {option} {dollars(own)}, which is more",
                hint="say it once",
            )
        if self._at is None and is_needed:
            where = f"{self._profile.title} is started by a text, to which no words can be added"
            raise _unheld("max_cost", Unseen(where, f"{option} {dollars(most)} in that text"))
        if self._at is not None:
            self._words += [option, dollars(most)]
            self._cost_at = len(self._words) - 1

    def _own_limit(self) -> float | None:
        """What the command itself says for that option; what is no number is left to the agent."""
        options, name = self._profile.options, self._profile.budget.cost_option
        for one in read_arguments(options, self._arguments or ()):
            if one.option == name:
                value = one.words[-1].partition("=")[2] or one.words[-1]
                try:
                    return float(value)
                except ValueError:
                    return 0.0
        return None

    def _warn(self, name: str, what: str) -> None:
        """The command is a script: what it does with its arguments is not known."""
        said = f"{argument(name)} holds only if this command prints what {self._profile.title} says"
        self.warning = f"{said} about its {what}"


def _no_agent(wanted: Wanted) -> Refused:
    name = "max_tokens" if wanted.max_tokens is not None else "max_cost"
    return Refused(
        f"{argument(name)}: no agent is recognised in this command, so what it uses is not known",
        hint=f"{argument('agent', 'NAME')} if it starts one; holdfast doctor --agents lists them",
    )


def _unheld(name: str, unseen: Unseen) -> Refused:
    hint = "holdfast doctor --agents says what can be seen of each agent"
    if unseen.add:
        hint = f"add {unseen.add}"
    return Refused(f"{argument(name)} can't hold: {unseen.why}", hint=hint)
