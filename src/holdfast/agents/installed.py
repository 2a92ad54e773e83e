"""Which agents this machine has, and what Holdfast can see of each: for `doctor --agents`.

Starts `X --version`, with a time limit; the only file of this package that starts a process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from holdfast.agents.hook_words import offer_in, why_no_file
from holdfast.agents.loader import load_profiles
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.profile import AgentProfile, CompletionRule, UsageRule

VERSION_SECONDS = 30.0  # on a busy machine node takes long to say it


class Visibility(Record):
    """What Holdfast can see of an agent, as sentences; None: nothing."""

    session: str | None
    completion: str | None
    usage: str | None
    budget: str | None  # what --max-tokens and --max-cost hold by
    limit: str | None
    resume: str | None
    attention: str | None  # how it is known what it waits for
    approve: str | None  # where --approve holds
    hooks: str | None  # how it is told to report
    why_no_hooks: str | None  # why it is not told so here


class FoundAgent(Record):
    """One agent: `path` and `version` are None when it is not there or does not say."""

    name: str
    title: str
    path: str | None
    version: str | None
    problem: str | None
    checked_with: str | None
    also_checked: dict[str, str] | None
    readable_with: str
    sees: Visibility
    install: str | None


def find_agents(seconds: float = VERSION_SECONDS) -> list[FoundAgent]:
    """Every agent with a profile that names a command, whether it is on PATH or not."""
    return [
        _find(profile, seconds)
        for profile in load_profiles().values()
        if profile.recognise.commands
    ]


def _find(profile: AgentProfile, seconds: float) -> FoundAgent:
    paths = (shutil.which(command) for command in profile.recognise.commands)
    path = next((one for one in paths if one), None)
    version, problem = _version(path, seconds) if path else (None, "not on PATH")
    return FoundAgent(
        name=profile.name,
        title=profile.title,
        path=path,
        version=version,
        problem=problem,
        checked_with=profile.checked_with,
        also_checked=profile.also_checked,
        readable_with=" ".join(word.replace("=", " ") for word in profile.options.readable),
        sees=visibility(profile),
        install=profile.install,
    )


def _version(path: str, seconds: float) -> tuple[str | None, str | None]:
    """The version that the program prints, or what is wrong."""
    try:
        said = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "NO_COLOR": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"--version did not end within {seconds:g} s"
    except OSError as error:
        return None, f"can't be started: {error.strerror}"
    text = (said.stdout or said.stderr).decode("utf-8", "replace")
    number = re.search(r"\d+(\.\d+)+\S*", text)
    if said.returncode != 0 or number is None:
        return None, f"--version: exit code {said.returncode}, {text.strip()[:80]!r}"
    return number[0], None


def visibility(profile: AgentProfile) -> Visibility:
    """What the profile's rules can find, and where."""
    transcript = profile.transcript
    hooks, why_no_hooks = _hooks(profile)
    return Visibility(
        session=_joined(stdout=profile.session, hooks=hooks),
        completion=_places(profile.completion, transcript.completion if transcript else ()),
        usage=_usage([*profile.usage, *(transcript.usage if transcript else ())]),
        budget=_budget(profile),
        limit="stdout" if profile.limit else None,
        resume="by session id" if profile.resume else None,
        attention=_attention(profile) if hooks else None,
        approve="in a terminal" if profile.hooks and profile.hooks.asking else None,
        hooks=hooks,
        why_no_hooks=why_no_hooks,
    )


def _hooks(profile: AgentProfile) -> tuple[str | None, str | None]:
    """How it is told to report, or why it is not."""
    rules, offer = profile.hooks, offer_in(profile.hooks)
    if rules is None or offer is None:
        return None, profile.why_no_hooks
    why_not = why_no_file(profile.name, offer) if rules.way == "file" else ""
    if why_not:
        return None, why_not
    where = "" if rules.events else ", in a terminal"
    return f"{rules.option or rules.variable}{where}", None


def _places(
    stdout: tuple[CompletionRule, ...], transcript: tuple[CompletionRule, ...]
) -> str | None:
    return _joined(stdout=stdout, transcript=transcript)


def _joined(**places: object) -> str | None:
    return ", ".join(name for name, is_there in places.items() if is_there) or None


def _attention(profile: AgentProfile) -> str | None:
    """What its hooks report of its waiting for a person."""
    rules = profile.hooks.report if profile.hooks else ()
    asked = [one.asks for one in rules if one.asks is not None]
    turns = ["turn over"] if any(one.ends_turn for one in rules) else []
    return ", ".join(dict.fromkeys([*sorted(asked), *turns])) or None


def _usage(rules: list[UsageRule]) -> str | None:
    live = any(rule.during for rule in rules)
    kinds = [
        (f"tokens{' while it works' if live else ''}", any(_tells_tokens(one) for one in rules)),
        ("cost", any(rule.cost_usd for rule in rules)),
    ]
    return ", ".join(name for name, there in kinds if there) or None


def _tells_tokens(rule: UsageRule) -> bool:
    return bool(rule.tokens_in or rule.tokens_out)


def _budget(profile: AgentProfile) -> str | None:
    transcript, own = profile.transcript, profile.budget.cost_option
    rules = [*profile.usage, *(transcript.usage if transcript else ())]
    held = ["max-tokens"] if any(_tells_tokens(rule) for rule in rules) else []
    if own is not None:
        held.append(f"max-cost by its own {own}")
    elif profile.budget.cost_known == "step":
        held.append("max-cost")
    return ", ".join(held) or None
