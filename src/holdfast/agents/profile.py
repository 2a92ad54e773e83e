"""What an agent profile says, as records. Made by the loader only; this file reads no files.

Owns the small language of profiles: paths into a JSON record, and conditions on its values.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    Path = tuple[str, ...]
    Json = dict[str, object]


def value_at(record: object, path: Path) -> object:
    """What stands at `usage.input_tokens` (a number is a place in a list); None when absent."""
    for step in path:
        if isinstance(record, dict):
            record = record.get(step)
        elif isinstance(record, list) and step.isdecimal() and int(step) < len(record):
            record = record[int(step)]
        else:
            return None
    return record


class Match(Record):
    """A condition on a JSON record: every path has one of its values (None: any but null)."""

    needs: tuple[tuple[Path, tuple[object, ...] | None], ...]

    def holds(self, record: Json) -> bool:
        for path, allowed in self.needs:
            found = value_at(record, path)
            if found is None:
                return False
            # 1 == True in Python; not in JSON.
            if allowed is not None and not any(
                found == value and type(found) is type(value) for value in allowed
            ):
                return False
        return True

    def said_by(self, record: Json) -> Json:
        """The part of the record that this condition looks at."""
        return {".".join(path): value_at(record, path) for path, _ in self.needs}


class When(Record):
    """Which lines a rule is about: JSON records (`match`) or plain lines (`line`)."""

    match: Match | None = None
    line: re.Pattern[str] | None = None


class Recognition(Record):
    """How the agent is recognised by its command."""

    commands: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


class WorkloadName(Record):
    """How the agent's own process is told from its wrappers.

    `relaunches`: the first match starts itself again, and its matching child is the workload.
    """

    comm: tuple[str, ...] = ()
    cmdline: re.Pattern[str] | None = None
    relaunches: bool = False


class Options(Record):
    """The agent's own options, as far as Holdfast has to understand them."""

    headless: tuple[str, ...] = ()
    no_terminal: tuple[str, ...] = ()
    many_turns: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    subcommands: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    with_value: tuple[str, ...] = ()
    with_optional_value: tuple[str, ...] = ()
    with_values: tuple[str, ...] = ()

    @property
    def headless_flags(self) -> tuple[str, ...]:
        """What asks for one turn without a terminal, where that is an option and no subcommand."""
        return tuple(word for word in self.headless if word.startswith("-"))


class Environment(Record):
    """`strip`: variables that name the session a process was started in."""

    strip: tuple[str, ...] = ()


class SessionRule(Record):
    when: When
    id: Path


class CompletionRule(Record):
    """A record that proves the agent's work is over.

    `settle_seconds`: a proof only when no new turn begins for that long.
    """

    when: When
    error_when: Match | None = None
    failed: bool = False
    text: tuple[Path, ...] = ()
    settle_seconds: float = 0.0


class AnswerRule(Record):
    """The final answer, where the completion record does not carry it."""

    when: When
    text: Path
    append: bool = False
    anew: tuple[Match, ...] = ()


class UsageRule(Record):
    """Where tokens and cost stand; several paths are added up.

    `during`: said while a turn goes on, of the message that `per` names. `whole_session`: the
    figures count earlier runs of a resumed session too.
    """

    when: When
    tokens_in: tuple[Path, ...] = ()
    tokens_out: tuple[Path, ...] = ()
    tokens: str = "last"
    cost_usd: Path | None = None
    cost: str = "last"
    during: bool = False
    per: Path | None = None
    whole_session: bool = False


class OverBudgetRule(Record):
    """A record by which the agent says that it gave up at its own limit."""

    when: When


class BudgetRules(Record):
    """What can hold an agent's cost: its own option, with a turn without a terminal; and when it
    says what it has cost so far (`cost_known`): after each `step`, or when a `turn` is over."""

    cost_option: str | None = None
    cost_known: str | None = None
    over: tuple[OverBudgetRule, ...] = ()


class LimitRule(Record):
    """A used-up quota, and when to come back."""

    when: When
    text: tuple[Path, ...] = ()
    only_when: re.Pattern[str] | None = None
    retry_epoch: Path | None = None
    retry_seconds: Path | None = None
    retry_text: re.Pattern[str] | None = None


class TranscriptRules(Record):
    """Where the agent writes its own record of a session, and what that proves."""

    root: str
    paths: tuple[str, ...]
    root_variable: str | None = None
    root_below_variable: str = ""
    confirm: Path | None = None
    at: Path | None = None  # the time of a record, in UTC
    anew: tuple[Match, ...] = ()
    completion: tuple[CompletionRule, ...] = ()
    usage: tuple[UsageRule, ...] = ()
    before: tuple[UsageRule, ...] = ()  # the session's totals when a process of it ended
    subagents: str | None = None  # files below the folder that is named as the session's file


class HookRule(Record):
    """What one report of an agent's hooks means.

    `asks`: it waits for a person (permission, question), about `text`; `alone`: and has no prompt
    of its own. `settles`: the question with the same key is over. A turn begins: nothing is open.
    It ends: `result` is the answer.
    `key`: what tells one question from another, where it stands elsewhere in this report.
    """

    when: When
    asks: str | None = None
    text: str = ""
    alone: bool = False
    key: tuple[Path, ...] = ()
    settles: bool = False
    begins_turn: bool = False
    ends_turn: bool = False
    failed: bool = False
    result: tuple[Path, ...] = ()


class HookRules(Record):
    """How an agent is told to report, and how its reports read.

    `way`: `settings`, `option` takes JSON with commands by event; `overrides`, `option` takes one
    setting, once for each event; `file`, `variable` names a file of such JSON, and `default_file`
    is read without it. `asking` waits for what a person says; `prompt_waits`: the agent shows its
    own prompt only when that hook is done.
    `prompt_tool`: words by which it asks a tool of a server, where it has no prompt of its own.
    """

    session: Path
    way: str = "settings"
    option: str | None = None
    variable: str | None = None
    default_file: str | None = None
    events: tuple[str, ...] = ()
    terminal_events: tuple[str, ...] = ()  # only where there is somebody to talk to
    asking: str | None = None
    prompt_tool: tuple[str, ...] = ()
    prompt_waits: bool = False
    background: tuple[str, ...] = ()  # events that the agent need not wait for
    brief: tuple[str, ...] = ()  # events whose hooks it gives 3 s at most
    never_with: tuple[str, ...] = ()
    not_headless: bool = False  # what they tell is told without them where there is no dialogue
    key: tuple[Path, ...] = ()
    allow: str | None = None
    deny: str | None = None
    report: tuple[HookRule, ...] = ()


class ResumeRule(Record):
    command: tuple[str, ...]
    default_prompt: str = "Continue where you left off."


class PrettyRule(Record):
    """How one kind of record reads for a person: `show` is a template over the record.

    `each`: the rule is about every element of that list that fulfils `where`.
    """

    when: When
    style: str
    show: str = ""
    each: Path | None = None
    where: Match | None = None


class AgentProfile(Record):
    """Everything that Holdfast knows of one agent.

    `drain_seconds`: how long it may take to end by itself after its work is proven done.
    `also_checked`: other versions that the facts were tried with, and what differs in each.
    `why_no_hooks`: why it is told to report nothing, for people.
    """

    name: str
    title: str = ""
    source: str = ""
    checked_with: str | None = None
    also_checked: dict[str, str] | None = None
    install: str | None = None
    drain_seconds: float | None = None
    replaces: bool = False
    recognise: Recognition = Recognition()
    workload: WorkloadName = WorkloadName()
    options: Options = Options()
    environment: Environment = Environment()
    session: tuple[SessionRule, ...] = ()
    completion: tuple[CompletionRule, ...] = ()
    answer: AnswerRule | None = None
    usage: tuple[UsageRule, ...] = ()
    budget: BudgetRules = BudgetRules()
    limit: tuple[LimitRule, ...] = ()
    transcript: TranscriptRules | None = None
    hooks: HookRules | None = None
    why_no_hooks: str | None = None
    resume: ResumeRule | None = None
    pretty: tuple[PrettyRule, ...] = ()
