"""Where agent profiles are: ours and the user's own. On the launch path: one directory listing."""

from __future__ import annotations

import os

BUILT_IN_DIRECTORY = f"{os.path.dirname(os.path.abspath(__file__))}/profiles"


def user_profile_directory() -> str:
    """`agents` in the configuration directory; it may not exist."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # the XDG rule: a relative one is ignored
        home = os.path.expanduser("~")
        # Without HOME and an entry in the password database it is still "~": never below the cwd.
        config = os.path.join(home if os.path.isabs(home) else os.devnull, ".config")
    return os.path.join(config, "holdfast", "agents")


def built_in_profile_files() -> list[str]:
    """The profiles that come with Holdfast, sorted by name."""
    names = sorted(os.listdir(BUILT_IN_DIRECTORY))
    return [f"{BUILT_IN_DIRECTORY}/{name}" for name in names if name.endswith(".toml")]


def user_profile_files() -> list[str]:
    """The user's profiles, sorted by name; none when the directory can't be listed."""
    try:
        with os.scandir(user_profile_directory()) as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith(".toml"))
    except OSError:
        return []
