"""The state directory: where it is, whether it can be trusted, and what lies where in it.

On the path of every launch, so the checks are a stat and one look at the mount table. Reading
commands neither make nor change it.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from holdfast.errors import HomeUnusable
from holdfast.process import procfs
from holdfast.process.this_host import absolute, user_home
from holdfast.run.atomic_files import make_directory, remove_file
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Locks of these may be held by two at once: another machine or a user process answers for them.
_LYING_TYPES = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "glusterfs", "lustre"),
    *("ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
)
_LYING_MAGIC = {  # f_type of statfs: for where the mount table does not list the device
    0x01021997: "9p",
    0x5346414F: "afs",
    0x00C36400: "ceph",
    0xFF534D42: "cifs",
    0xFE534D42: "smb3",
    0x0000517B: "smbfs",
    0x73757245: "coda",
    0x65735546: "fuse",
    0x0BD00BD0: "lustre",
    0x00006969: "nfs",
    0x786F4256: "vboxsf",
    0x6A656A63: "virtiofs",
    0xBACBACBC: "vmhgfs",
}

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OPEN_TO_OTHERS = "others can write to"
_FOLDERS = ("runs", "active", "recent", "names", "keys")
_FOLDERS_MADE_LATER = ("removed", "archive", "worktrees", "queues", "fleet")
RECENT_SECONDS = 86400.0  # plain listings show what ended in the last day
RECENT_SLACK_SECONDS = 3600.0  # markers stay this much longer, for a reader that asked a moment ago


class Home:
    """One state directory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.runs_path = f"{path}/runs"
        self.active_path = f"{path}/active"
        self.recent_path = f"{path}/recent"
        self.removed_path = f"{path}/removed"
        self.archive_path = f"{path}/archive"
        self.names_path = f"{path}/names"
        self.keys_path = f"{path}/keys"
        self.queues_path = f"{path}/queues"
        self.fleet_path = f"{path}/fleet"  # placements of runs elsewhere
        self.node_path = f"{path}/node.json"  # which node of a fleet this is
        self.started_path = f"{path}/fleet/started"  # ids that submitters gave to runs here
        self.abandoned_path = f"{path}/abandoned.jsonl"
        self.usage_path = f"{path}/usage.jsonl"
        self.older_usage_path = f"{path}/usage.1.jsonl"
        self.index_path = f"{path}/index.sqlite3"
        self.digests_path = f"{path}/digests.json"

    @classmethod
    def locate(cls, path: str | os.PathLike[str] | None = None) -> Home:
        """The home that was given, or that the environment names. Looks at no file."""
        chosen = os.fspath(path) if path is not None else os.environ.get("HOLDFAST_HOME")
        if chosen:
            return cls(absolute(chosen))
        base = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(base):  # the XDG standard: a relative one is to be ignored
            base = f"{_user_home()}/.local/state"
        return cls(os.path.abspath(f"{base}/holdfast"))

    def check(self) -> bool:
        """For reading: whether it exists. HomeUnusable when it does and can't be trusted."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unusable(self.path, f"can't be looked at: {error.strerror}") from None
        self._check_status(status)
        self._check_folders()
        if os.environ.get("HOLDFAST_ALLOW_REMOTE") != "1":
            self._check_locks(status.st_dev)
        return True

    def prepare(self) -> Home:
        """For writing: make what is missing, or HomeUnusable."""
        try:
            if not self.check():
                os.makedirs(self.path, mode=0o700, exist_ok=True)
                self.check()
            for name in _FOLDERS:
                make_directory(f"{self.path}/{name}")
            if not os.access(self.runs_path, os.W_OK | os.X_OK):
                raise _unusable(self.path, "can't be written to")
        except OSError as error:
            raise _unusable(self.path, f"can't be used: {error.strerror}") from None
        return self

    def run_ids(self, *, active: bool = False) -> list[str]:
        """The ids of all runs, or of those without a recorded ending; oldest first."""
        path = self.active_path if active else self.runs_path
        return sorted(name for name in _names_in(path) if is_id(name))

    def oldest_ids(self, after: str, most: int) -> list[str]:
        """The first ids of runs after that one, so many at most; oldest first.

        Less than to list all: only these are looked at and put in order.
        """
        from heapq import heapify, heappop

        try:
            names = [name for name in os.listdir(self.runs_path) if name > after]
        except FileNotFoundError:
            return []
        heapify(names)
        found: list[str] = []
        while names and len(found) < most:
            if is_id(name := heappop(names)):
                found.append(name)
        return found

    def index_bytes(self) -> int:
        """How large the index is: it tells roughly how long the history is. 0: there is none."""
        try:
            return os.stat(self.index_path).st_size
        except OSError:
            return 0

    def entries(self) -> set[str]:
        """What lies in `runs`: ids, and perhaps other names. A look at each takes its time."""
        try:
            return set(os.listdir(self.runs_path))
        except FileNotFoundError:
            return set()

    def count_runs(self, most: int | None = None) -> int:
        """How many runs there are, counted up to `most`.

        Where the file system counts directories, that takes no listing; ext4 does so up to 65 000.
        """
        try:
            links = os.stat(self.runs_path).st_nlink  # one for each directory below, and two
        except FileNotFoundError:
            return 0
        if links > 2:
            return links - 2
        found = 0
        for name in _names_in(self.runs_path):
            found += is_id(name)
            if found == most:
                break
        return found

    def recent_ids(self, since: float) -> list[str]:
        """The ids of runs whose ending was recorded at or after that time; oldest first."""
        return sorted(run_id for run_id, at in self._recent() if at >= since)

    def forget_recent(self) -> None:
        """Runs that ended longer ago are found in the history alone."""
        before = time.time() - RECENT_SECONDS - RECENT_SLACK_SECONDS
        for run_id, at in list(self._recent()):
            if at < before:
                self.forget_ending(run_id)

    def forget_ending(self, run_id: str) -> None:
        """That run is not among the recent ones."""
        remove_file(f"{self.recent_path}/{run_id}")

    def _recent(self) -> Iterator[tuple[str, float]]:
        for name in _names_in(self.recent_path):
            try:
                if is_id(name):
                    yield name, os.stat(f"{self.recent_path}/{name}").st_mtime
            except FileNotFoundError:
                continue

    def names(self) -> list[str]:
        """Every name that was ever claimed, in lower case."""
        return sorted(_names_in(self.names_path))

    def _check_status(self, status: os.stat_result) -> None:
        if not stat.S_ISDIR(status.st_mode):
            raise _unusable(self.path, "is not a directory")
        if status.st_uid != os.geteuid():
            raise _unusable(self.path, f"belongs to another user (uid {status.st_uid})")
        if status.st_mode & _BY_OTHERS:
            who = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
            fix = f"chmod 700 {self.path}; then look at what others put into it"
            raise _unusable(self.path, f"can be written to by {who}", fix)

    def _check_folders(self) -> None:
        """Each directory in it is one that we made: whoever could write here once may have put a
        link in its place, and what is done in it would be done elsewhere."""
        for name in (*_FOLDERS, *_FOLDERS_MADE_LATER):
            path = f"{self.path}/{name}"
            try:
                why = _why_not_ours(os.lstat(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _unusable(self.path, f"can't be used: {error.strerror}") from None
            if why is not None:
                # Of a link, chmod would change what it leads to.
                fix = f"see who made it: ls -ld {path}; then remove it"
                fix = f"chmod 700 {path}" if why == _OPEN_TO_OTHERS else fix
                raise _unusable(self.path, f"has a {name} that {why}", fix)

    def _check_locks(self, device: int) -> None:
        found = file_system_type(self.path, device)
        if found is not None and (found in _LYING_TYPES or found.startswith("fuse.")):
            raise _unusable(
                self.path,
                f"is on {found}, where two processes may hold the same lock",
                "set HOLDFAST_HOME to a directory on a local disk;"
                " HOLDFAST_ALLOW_REMOTE=1 if only one machine uses it",
            )


def _user_home() -> str:
    found = user_home()
    if found is None:
        given = os.environ.get("HOME")
        home = "HOME" if not given else f"HOME (as an absolute path, which {given!r} is not)"
        missing = f"HOLDFAST_HOME, XDG_STATE_HOME and {home} are not set"
        if not given:
            missing += f", and the password database has no entry for uid {os.getuid()}"
        raise HomeUnusable(
            f"nothing says where the state directory is: {missing}",
            hint="set HOLDFAST_HOME to a directory of your own on a local disk",
        )
    return found


def _why_not_ours(status: os.stat_result) -> str | None:
    """What is wrong with a directory that only we should have made; None: nothing."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link, and none is followed"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid != os.geteuid():
        return f"belongs to another user (uid {status.st_uid})"
    return _OPEN_TO_OTHERS if status.st_mode & _BY_OTHERS else None


def file_system_type(path: str, device: int) -> str | None:
    """The type's name; None: not told, which is so for file systems that are not known to lie."""
    found = procfs.file_system_of(device)
    if found is None and sys.platform == "linux":
        # Not in the table: btrfs has a device of its own per subvolume. ctypes costs a launch
        # as much as everything else here, so it is asked last.
        from holdfast.process import libc

        try:
            found = _LYING_MAGIC.get(libc.file_system_magic(path))
        except OSError:
            return None
    return found


def _names_in(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry.name
    except FileNotFoundError:
        return


def _unusable(path: str, why: str, hint: str | None = None) -> HomeUnusable:
    return HomeUnusable(
        f"the state directory {path} {why}",
        hint=hint or "set HOLDFAST_HOME to a directory of your own on a local disk",
        path=path,
    )
