"""What a process passes on to the processes that it starts, beside environment and directory.

A queued run has its submitter's. A shim that would start it from another context leaves that to
the user: compare, and never guess.
"""

from __future__ import annotations

import os

from holdfast.process import cgroups, procfs


def own_context() -> dict[str, str]:
    """Control group, limits, umask and namespaces of this process, as texts to compare."""
    return {
        "cgroup": str(cgroups.text_of("self"), "utf-8", "replace").strip(),
        "limits": _limits(),
        "umask": f"{_umask():04o}",
        "namespaces": procfs.namespaces(),
    }


def _limits() -> str:
    """Soft and hard, in the kernel's order."""
    lines = str(procfs.read("self", "limits"), "ascii", "replace").splitlines()[1:]
    return " ".join("/".join(line[26:].split()[:2]) for line in lines)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
