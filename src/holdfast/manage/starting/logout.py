"""Whether what is started here outlives the login session. Reads a few small files, no more.

`run` warns by it and `doctor` shows it. logind kills the processes of a session's scope when
KillUserProcesses is on; the user's own manager ends with the last session unless the user lingers.
"""

from __future__ import annotations

import os

from holdfast.record import Record

_CONFIGURATIONS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
_SETTING = (  # compiled when it is needed: this is loaded by every start
    r"(?m)^[ \t]*(#?)[ \t]*(KillUserProcesses|KillExcludeUsers)[ \t]*=[ \t]*(.*?)[ \t]*$"
)
_TRUE = ("1", "yes", "y", "true", "t", "on")


class Survival(Record):
    """What happens at logout. `survives` is None when nothing here says it."""

    survives: bool | None
    why: str
    fix: str | None = None


def survival(root: str = "") -> Survival:
    """Look at this process's place in systemd's tree. `root` is a directory to read from."""
    if not os.path.isdir(f"{root}/run/systemd/system"):
        return Survival(True, "no systemd here: nothing ends processes at logout")
    return survival_in(_own_unit_path(), root)


def survival_in(unit_path: str, root: str = "") -> Survival:
    """What logout does to a process in that control group: `/user.slice/.../session-3.scope`."""
    import re

    if re.search(r"/user@\d+\.service(/|$)", unit_path):
        return _below_the_users_manager(root)
    if re.search(r"/session-[^/]+\.scope(/|$)", unit_path):
        return _in_a_session(root)
    service = re.search(r"/([^/]+\.service)(/|$)", unit_path)
    if service:
        return Survival(
            True,
            f"not in a login session; stopping {service[1]} ends runs that were started in it",
        )
    return Survival(True, "not in a login session")


def _below_the_users_manager(root: str) -> Survival:
    if _lingers(root):
        return Survival(True, "below the user's manager, which stays: linger is on")
    return Survival(
        False,
        "the user's manager ends with the last session; linger is off",
        "loginctl enable-linger",
    )


def _in_a_session(root: str) -> Survival:
    settings = _settings(root)
    kills = settings.get("KillUserProcesses")
    if kills is None:
        return Survival(None, "in a login session, and no logind.conf says what it does at logout")
    if kills.lower() not in _TRUE:
        return Survival(True, "logind leaves this session's processes alone at logout")
    if _user() in settings.get("KillExcludeUsers", "root").split():
        return Survival(True, f"logind spares {_user()} at logout")
    start = "systemd-run --user --scope holdfast run ..."
    linger = "" if _lingers(root) else "loginctl enable-linger; "
    off = "" if _lingers(root) else "; linger is off"
    return Survival(
        False, f"logind kills this session's processes{off}", f"{linger}start runs with `{start}`"
    )


def _settings(root: str) -> dict[str, str]:
    """logind's own rule: one main file, then drop-ins of all places in the order of their names."""
    found: dict[str, str] = {}
    main = next((f for f in _files(root, "logind.conf") if os.path.isfile(f)), None)
    drop_ins: dict[str, str] = {}
    for directory in reversed(_files(root, "logind.conf.d")):
        for name in _names(directory):
            if name.endswith(".conf"):
                drop_ins[name] = f"{directory}/{name}"
    import re

    for path in (main, *(drop_ins[name] for name in sorted(drop_ins))):
        # The shipped file shows the built-in default as a comment: distributions differ in it.
        for commented, key, value in re.findall(_SETTING, _text(path)):
            if not commented or key not in found:
                found[key] = value
    return found


def _files(root: str, name: str) -> list[str]:
    return [f"{root}{directory}/{name}" for directory in _CONFIGURATIONS]


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _text(path: str | None) -> str:
    try:
        with open(path or os.devnull, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _lingers(root: str) -> bool:
    return os.path.exists(f"{root}/var/lib/systemd/linger/{_user()}")


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _own_unit_path() -> str:
    """systemd's control group of this process: the named v1 hierarchy, else v2."""
    from holdfast.process import cgroups

    paths = cgroups.paths_of(cgroups.text_of("self"))
    return paths.get("name=systemd") or paths.get(cgroups.V2) or ""
