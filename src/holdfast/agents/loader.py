"""Loads agent profiles: the built-in ones and the user's own, strictly.

Off the launch path (tomllib alone costs several times `setsid -f`): recognition.py knows the
built-in agents from a generated table and calls this only when the user has profiles.
"""

from __future__ import annotations

import os

from holdfast.agents.layout import profile as read_profile
from holdfast.agents.places import (
    BUILT_IN_DIRECTORY,
    built_in_profile_files,
    user_profile_files,
)
from holdfast.agents.schema import KeyPath
from holdfast.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.agents.profile import AgentProfile


def load_file(file: str) -> AgentProfile:
    """One profile; raises InvalidProfile that names the file, the key and what is expected."""
    import re
    import tomllib

    place = KeyPath(file)
    try:
        with open(file, "rb") as opened:
            content = tomllib.load(opened)
    except OSError as error:
        place.fail(f"can't be read: {error.strerror}", "a readable file")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        place.fail(f"is not TOML: {error}", "a TOML file")
    profile: AgentProfile = read_profile(content, place)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", profile.name) or profile.name in _WORDS:
        place.below("name").fail(
            f"is {profile.name!r}", "a short name of a-z, 0-9, - and _ (not auto or none)"
        )
    return profile.replace(source=file, title=profile.title or profile.name)


_WORDS = ("auto", "none")  # of the option --agent


def built_in_profiles() -> dict[str, AgentProfile]:
    """The profiles that come with Holdfast, by name."""
    return _by_name({}, built_in_profile_files())


def load_profiles() -> dict[str, AgentProfile]:
    """Every profile by name. A user's one takes a built-in one's place only with `replaces`."""
    return _by_name(built_in_profiles(), user_profile_files())


def load_profile(name: str) -> AgentProfile:
    """The profile of that name; raises NotFound."""
    built_in = os.path.join(BUILT_IN_DIRECTORY, f"{name}.toml")
    if not user_profile_files() and name.isalnum() and os.path.exists(built_in):
        return load_file(built_in)
    profiles = load_profiles()
    if name not in profiles:
        known = ", ".join(profiles)
        raise NotFound(f"there is no agent profile {name!r}", hint=f"known: {known}", agent=name)
    return profiles[name]


def _by_name(known: dict[str, AgentProfile], files: Iterable[str]) -> dict[str, AgentProfile]:
    found: dict[str, AgentProfile] = {}
    for file in files:
        profile = load_file(file)
        other = found.get(profile.name) or known.get(profile.name)
        if profile.name in found or (other is not None and not profile.replaces):
            assert other is not None
            way_out = "another name" + ("" if profile.name in found else ", or replaces = true")
            KeyPath(file, "name").fail(f"{profile.name!r} is taken by {other.source}", way_out)
        found[profile.name] = profile
    return {**known, **found}
