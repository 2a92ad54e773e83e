"""Which agent a command starts, also behind wrappers; which variables betray an outer session.

On the launch path: works from the generated table and touches no file, except that the user's
profile directory is listed; profiles are loaded (slowly) only when there are some.
"""

from __future__ import annotations

import os

from holdfast.agents import recognition_table as built_in
from holdfast.agents.places import user_profile_files
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.agents.profile import AgentProfile
    from holdfast.agents.unwrapping import Unwrapped


class Located(Record):
    """An agent in a command: the words up to and with its program, and its own arguments."""

    agent: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]


class _Table(Record):
    commands: dict[str, str]
    packages: dict[str, str]
    modules: dict[str, str]
    scripts: tuple[tuple[str, str], ...]
    variables: frozenset[str]
    headless: dict[str, tuple[str, ...]]  # by agent: words for a turn without a terminal
    no_terminal: dict[str, tuple[str, ...]]  # other words with which it needs none
    readable: dict[str, tuple[str, ...]]  # words without which its output tells nothing


_BUILT_IN = _Table(
    built_in.COMMANDS,
    built_in.PACKAGES,
    built_in.MODULES,
    built_in.SCRIPTS,
    built_in.SESSION_VARIABLES,
    built_in.HEADLESS,
    built_in.NO_TERMINAL,
    built_in.READABLE,
)


def recognise(argv: Sequence[str]) -> str | None:
    """The name of the agent that this command starts; raises InvalidProfile for a user's one."""
    located = locate(argv)
    return located.agent if located else None


def locate(argv: Sequence[str]) -> Located | None:
    """The agent in this command, with what is the agent's own of it."""
    table = _current_table()
    name = os.path.basename(argv[0]) if argv else ""
    if name in table.commands:
        return Located(table.commands[name], tuple(argv[:1]), tuple(argv[1:]))
    if not may_be_wrapper(name):
        return None  # as most commands: unwrapping is not even imported
    from holdfast.agents.unwrapping import unwrap

    for step in unwrap(argv):
        agent = _agent_of(table, step)
        if agent is not None:
            return Located(agent, step.words[: step.at + 1], step.words[step.at + 1 :])
    return None


def needs_terminal(argv: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The agent that will need a terminal, and the words that would avoid it; None: none does."""
    located = locate(argv)
    if located is None:
        return None
    table, agent = _current_table(), located.agent
    words = table.headless.get(agent, ())
    enough = (*words, *table.no_terminal.get(agent, ()))
    letters = tuple(word for word in enough if len(word) == 2 and word[0] == "-")
    for given in located.arguments:
        if given.partition("=")[0] in enough or given.startswith(letters):
            return None
    return (agent, words) if words else None


def headless_words(agent: str) -> tuple[str, ...]:
    """Options or subcommands for one prompt with nobody to talk to."""
    return _current_table().headless.get(agent, ())


def missing_readable_words(argv: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The agent, and what it takes for output that can be read; None: it is there, or unknown."""
    located = locate(argv)
    words = () if located is None else _current_table().readable.get(located.agent, ())
    if located is None or not words or tells_all(located.agent, located.arguments):
        return None
    return located.agent, words


def tells_all(agent: str, given: Sequence[str]) -> bool:
    """Whether its arguments ask for output that can be read."""
    words = _current_table().readable.get(agent, ())
    joined = {f"{one}={given[at]}" for at, one in enumerate(given[:-1], 1)}
    return bool(words) and joined.union(given).issuperset(words)


def may_be_wrapper(name: str) -> bool:
    """Whether a program of this name may only be there to start another: `python3.12`, `npx`."""
    return (
        name in built_in.WRAPPERS or name.rstrip(built_in.VERSION_CHARACTERS) in built_in.WRAPPERS
    )


def strip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without any known agent's session variables."""
    variables = _current_table().variables
    return {name: value for name, value in env.items() if name not in variables}


def _agent_of(table: _Table, step: Unwrapped) -> str | None:
    word = step.words[step.at]
    if step.kind == "module":
        return table.modules.get(word)
    base = os.path.basename(word)
    if step.kind == "package":
        return table.packages.get(_package_name(word)) or table.commands.get(_package_name(word))
    if base in table.commands:
        return table.commands[base]
    return _agent_of_script(table, word) if step.kind == "script" else None


def _agent_of_script(table: _Table, script: str) -> str | None:
    import re

    return next((agent for pattern, agent in table.scripts if re.search(pattern, script)), None)


def _package_name(word: str) -> str:
    """`@openai/codex@latest`, `aider-chat[browser]==0.86` without version and extras."""
    name = word[0] + word[1:].partition("@")[0]
    return name.partition("[")[0].partition("=")[0]


def _current_table() -> _Table:
    if not user_profile_files():
        return _BUILT_IN
    from holdfast.agents.loader import load_profiles

    return table_of(load_profiles())


def table_of(profiles: Mapping[str, AgentProfile]) -> _Table:
    """What recognition needs of these profiles; a later one wins where two claim a command."""
    by_name = [(name, profile.recognise) for name, profile in profiles.items()]
    variables = (name for profile in profiles.values() for name in profile.environment.strip)
    return _Table(
        {command: name for name, rule in by_name for command in rule.commands},
        {package: name for name, rule in by_name for package in rule.packages},
        {module: name for name, rule in by_name for module in rule.modules},
        tuple((script, name) for name, rule in by_name for script in rule.scripts),
        frozenset(variables),
        {name: one.options.headless for name, one in profiles.items() if one.options.headless},
        {
            name: one.options.no_terminal
            for name, one in profiles.items()
            if one.options.no_terminal
        },
        {name: one.options.readable for name, one in profiles.items() if _needs_words(one)},
    )


def _needs_words(profile: AgentProfile) -> bool:
    """Whether it names its session only with those options: not in plain text too."""
    is_plain = any(rule.when.line is not None for rule in profile.session)
    return bool(profile.options.readable) and not is_plain
