"""Words that completion looks up: runs, tags, agents, presets, signals, environment variables.

Nothing is locked or written, and no process is looked at. The number of specs read is bounded: a
long history does not slow the prompt down.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Words = dict[str, str]

MOST_SPECS = 200  # the newest
_FOR_ACTIVE_RUNS = ("attach", "send", "stop", "wait")
_FOR_ENDED_RUNS = ("archive", "resume", "rm")


def known_words(source: str, verb: str, typed: str) -> Words:
    """The words of one source, each with what it means."""
    return _SOURCES[source](verb, typed)


def _runs(verb: str, typed: str) -> Words:
    """The runs that a plain `ls` shows; any other name, then any id, that begins as was typed."""
    home = _home()
    active = set(home.run_ids(active=True))
    words: Words = {}
    for spec in _specs(home, active):
        is_active = spec.id in active
        if verb not in (_FOR_ENDED_RUNS if is_active else _FOR_ACTIVE_RUNS):
            words.setdefault(spec.name, "active" if is_active else "ended")
    if any(word.startswith(typed) for word in words) or verb in _FOR_ACTIVE_RUNS:
        return words
    names = [name for name in home.names() if name.startswith(typed.lower())]
    ids = [] if names else [one for one in home.run_ids() if one.startswith(typed)]
    return {**words, **dict.fromkeys(names or ids, "")}


def _tags(_verb: str, _typed: str) -> Words:
    home = _home()
    specs = _specs(home, set(home.run_ids(active=True)))
    return {f"{name}={value}": "" for spec in specs for name, value in spec.tags.items()}


def _home() -> Home:
    from holdfast.run.home import Home

    home = Home.locate()
    home.check()
    return home


def _specs(home: Home, active: set[str]) -> Iterator[RunSpec]:
    """Of the active runs and those of the last day, newest first."""
    import time

    from holdfast.run.directory import RunDirectory
    from holdfast.run.home import RECENT_SECONDS

    recent = home.recent_ids(time.time() - RECENT_SECONDS)
    for run_id in sorted({*active, *recent}, reverse=True)[:MOST_SPECS]:
        try:
            yield RunDirectory(home, run_id).read_spec()
        except (HoldfastError, OSError):  # completion offers what can be read
            continue


def _agents(_verb: str, _typed: str) -> Words:
    from holdfast.agents.places import built_in_profile_files, user_profile_files

    if user_profile_files():
        from holdfast.agents.loader import load_profiles

        return {name: profile.title for name, profile in load_profiles().items()}
    files = map(os.path.basename, built_in_profile_files())  # a built-in one is named as its file
    return {file.removesuffix(".toml"): "" for file in files}


def _agent_choices(verb: str, typed: str) -> Words:
    return {**_agents(verb, typed), "auto": "recognised by the command", "none": "not an agent"}


def _presets(_verb: str, _typed: str) -> Words:
    from holdfast.manage.starting.config import load_config

    return dict.fromkeys(load_config().presets, "")


def _signals(_verb: str, typed: str) -> Words:
    from holdfast.lean import signal

    names = (name for name in dir(signal) if name.startswith("SIG") and name[3] != "_")
    prefix = "" if typed.startswith("SIG") else "SIG"
    return {name.removeprefix(prefix): "" for name in names}


def _variables(_verb: str, _typed: str) -> Words:
    return dict.fromkeys(sorted(os.environ), "")


def _queues(_verb: str, _typed: str) -> Words:
    from holdfast.run.queueing.disk import queue_names

    return dict.fromkeys(queue_names(_home()), "")


def _engines(_verb: str, _typed: str) -> Words:
    from holdfast.manage.starting.config import load_config

    tables = load_config().fleet.get("engine", {})
    hosts = {f"ssh:{name}" for name, table in tables.items() if table.get("kind") == "ssh"}
    return dict.fromkeys(sorted({"ssh:", "slurm", "ray", *hosts, *(tables.keys() - hosts)}), "")


_SOURCES: dict[str, Callable[[str, str], Words]] = {
    "runs": _runs,
    "tags": _tags,
    "agents": _agents,
    "agent choices": _agent_choices,
    "presets": _presets,
    "queues": _queues,
    "engines": _engines,
    "signals": _signals,
    "variables": _variables,
}
