"""What a run changed in its worktree since it began: committed, uncommitted and untracked.

A look: git runs no program that the repository names, and the checkout's index is not written to.
Untracked files are shown by a copy of it, in which they are entered by name.
"""

from __future__ import annotations

import os

from holdfast.errors import Failed, HoldfastError, Refused
from holdfast.manage.operations import run_steps
from holdfast.manage.worktrees.git import SECONDS
from holdfast.manage.worktrees.losses import ask_inside, filters_of
from holdfast.manage.worktrees.notes import believed
from holdfast.process.clock import boottime
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.worktrees.git import GitAnswer
    from holdfast.manage.worktrees.notes import Worktree
    from holdfast.run.directory import RunDirectory
    from holdfast.run.home import Home

    Json = dict[str, Any]

COUNT_SECONDS = 2.0  # for the counts of a whole list, and for each git of it
_KINDS = {"A": "added", "M": "modified", "D": "deleted", "T": "type changed", "U": "unmerged"}
# No external diff, no textconv, no look into a submodule, and no file that the configuration names.
_PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "-O/dev/null", "--no-relative"),
    *("--ignore-submodules=dirty", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"),
)


class ChangedFile(Record):
    """One path, as it is beside the base. Lines are None of a binary file."""

    path: str
    kind: str  # added, modified, deleted, type changed, unmerged, repository
    added_lines: int | None
    deleted_lines: int | None


class Diff(Record):
    """What a worktree run changed since its base commit."""

    base: str
    branch: str
    commits: int  # from the base to its HEAD
    files: tuple[ChangedFile, ...]
    text: bytes  # as `git diff` prints it

    def to_json(self) -> Json:
        """`text`, or `base64` where it is not UTF-8."""
        document = {**self.as_dict(), "files": [file.as_dict() for file in self.files]}
        try:
            return {**document, "text": self.text.decode()}
        except UnicodeDecodeError:
            import base64

            del document["text"]
            return {**document, "base64": base64.b64encode(self.text).decode("ascii")}

    @classmethod
    def from_json(cls, document: Json) -> Diff:
        """As a node tells it."""
        import base64

        text = str(document.get("text", "")).encode()
        if "base64" in document:
            text = base64.b64decode(document["base64"])
        files = tuple(ChangedFile(**file) for file in document["files"])
        return cls(document["base"], document["branch"], document["commits"], files, text)


class ChangeCounts(Record):
    """How much a worktree run changed, in numbers."""

    files: int  # that differ from the base
    uncommitted: int  # that differ from its HEAD, untracked ones too
    commits: int  # from the base to its HEAD


def diff_run(
    directory: RunDirectory, *, stat: bool = False, name_only: bool = False
) -> Steps[Diff]:
    """What it changed. The text is a patch; or a summary (`stat`), or the paths alone."""
    form = "--stat" if stat else "--name-only" if name_only else "--patch"
    worktree = worktree_of(directory)
    _refuse_removed(worktree)
    ask = _Asking(worktree, (yield from filters_of(worktree)), SECONDS)
    untracked = yield from ask.untracked()
    commits = yield from ask.commits()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        index = None
        if any(not path.endswith("/") for path in untracked):
            index = yield from _index_with(worktree, untracked, folder)
        kinds = yield from ask.diff("--name-status", "-z", "--no-renames", index=index)
        lines = yield from ask.diff("--numstat", "-z", "--no-renames", index=index)
        text = yield from ask.diff(form, "--find-renames", index=index)
    files = _files(kinds, lines, untracked)
    return Diff(worktree.base, worktree.branch, commits, files, _bytes(text))


class Counting:
    """Counts what runs changed, for as long as a list may take; then it is not known."""

    def __init__(self, home: Home, seconds: float = COUNT_SECONDS) -> None:
        self._home, self._deadline = home, boottime() + seconds

    def add_to(self, info: RunInfo) -> RunInfo:
        """The run with `changes` in its `worktree`; None there: not known."""
        if info.worktree is None or "changes" in info.worktree:  # a node has counted
            return info
        counts = self._count(info)
        changes = None if counts is None else counts.as_dict()
        return info.replace(worktree={**info.worktree, "changes": changes})

    def _count(self, info: RunInfo) -> ChangeCounts | None:
        seconds = self._deadline - boottime()
        if seconds <= 0:
            return None
        try:
            worktree = believed(self._home, info.worktree)
            counts: ChangeCounts | None = run_steps(_count(worktree, seconds))
        except (HoldfastError, OSError):
            return None
        return counts


def worktree_of(directory: RunDirectory) -> Worktree:
    """The run's own worktree; Refused when it has none."""
    spec = directory.read_spec()
    if spec.worktree is None:
        raise Refused(
            f"{spec.name} ({spec.id}) was not started with a worktree of its own",
            hint="holdfast run --worktree BRANCH; in the repository itself: git diff",
            run=spec.id,
        )
    return believed(directory.home, spec.worktree)


def _refuse_removed(worktree: Worktree) -> None:
    if not os.path.isdir(worktree.path):
        repository, branch = worktree.repository, worktree.branch
        raise Failed(
            f"the worktree {worktree.path} is gone",
            hint="what was committed, if its branch is still there: "
            f"git -C {repository} diff {worktree.base[:12]} {branch}",
            path=worktree.path,
        )


class _Asking:
    """The questions to git about one worktree; Failed when it can't answer."""

    def __init__(self, worktree: Worktree, filters: Sequence[str], seconds: float) -> None:
        self._worktree, self._filters, self._seconds = worktree, filters, seconds

    def untracked(self) -> Steps[list[str]]:
        """Paths of files that git neither has nor ignores; with a / at its end: a repository."""
        listed = yield from self._ask("ls-files", "--others", "--exclude-standard", "-z")
        return listed.split("\0")[:-1]

    def diff(self, *words: str, index: str | None = None) -> Steps[str]:
        """The checkout beside the base."""
        how = ("diff", *_PLAIN, *words, self._worktree.base, "--")
        return (yield from self._ask(*how, index=index, without_filters=self._filters))

    def uncommitted(self) -> Steps[set[str]]:
        """Paths of tracked files that are not as in HEAD."""
        how = ("diff", *_PLAIN, "--name-only", "-z", "--no-renames", "HEAD", "--")
        return set((yield from self._ask(*how, without_filters=self._filters)).split("\0")[:-1])

    def commits(self) -> Steps[int]:
        """How many its HEAD has beyond the base."""
        count = yield from self._ask("rev-list", "--count", f"{self._worktree.base}..HEAD", "--")
        return int(count)

    def _ask(self, *words: str, **how: Any) -> Steps[str]:
        said = yield from ask_inside(self._worktree, *words, seconds=self._seconds, **how)
        return _answer(said, self._worktree)


def _answer(said: GitAnswer, worktree: Worktree) -> str:
    if not said.is_well:
        raise Failed(
            f"git can't say what changed in {worktree.path}: {said.complaint}",
            hint=f"look there by hand: cd {worktree.path}",
            path=worktree.path,
        )
    return said.output


def _count(worktree: Worktree, seconds: float) -> Steps[ChangeCounts | None]:
    if not os.path.isdir(worktree.path):
        return None
    ask = _Asking(worktree, (yield from filters_of(worktree)), seconds)
    untracked = set((yield from ask.untracked()))
    changed = yield from ask.diff("--name-only", "-z", "--no-renames")
    uncommitted = yield from ask.uncommitted()
    commits = yield from ask.commits()
    files = untracked.union(changed.split("\0")[:-1])
    return ChangeCounts(len(files), len(untracked | uncommitted), commits)


def _index_with(worktree: Worktree, untracked: list[str], folder: str) -> Steps[str]:
    """A copy of the index, in which the untracked files are entered too, with no content yet."""
    own = _answer((yield from ask_inside(worktree, "rev-parse", "--absolute-git-dir")), worktree)
    path = f"{folder}/index"
    _copy_index(f"{own.removesuffix(chr(10))}/index", path)
    nothing = yield from ask_inside(worktree, "hash-object", "-t", "blob", "--stdin")
    blob = _answer(nothing, worktree).strip()
    entries = "".join(f"100644 {blob}\t{one}\0" for one in untracked if not one.endswith("/"))
    how: Json = {"index": path, "stdin": _bytes(entries)}
    entered = yield from ask_inside(worktree, "update-index", "-z", "--index-info", **how)
    _answer(entered, worktree)
    return path


def _copy_index(source: str, target: str) -> None:
    """With its time: git trusts no entry whose file was written as late as the index was."""
    import shutil
    import stat

    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(source, flags), "rb") as file, open(target, "xb") as copy:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Failed(f"{source} is not a file", path=source)
        shutil.copyfileobj(file, copy)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _files(kinds: str, lines: str, untracked: list[str]) -> tuple[ChangedFile, ...]:
    words = kinds.split("\0")[:-1]
    counts = {}
    for entry in lines.split("\0")[:-1]:
        added, deleted, path = entry.split("\t", 2)
        counts[path] = (_number(added), _number(deleted))
    files = [
        ChangedFile(path, _KINDS.get(letter, letter), *counts.get(path, (None, None)))
        for letter, path in zip(words[::2], words[1::2], strict=True)
    ]
    files += [ChangedFile(one, "repository", None, None) for one in untracked if one[-1] == "/"]
    return tuple(files)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
