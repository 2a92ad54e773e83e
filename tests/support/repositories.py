"""Git repositories for tests, made with the real git and no configuration of the developer's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


class Repository:
    """One checkout, or a bare repository."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def make(cls, path: Path, *options: str) -> Repository:
        """A repository with one commit on `main`, in which `sub/file` is."""
        path.mkdir(parents=True)
        repository = cls(path)
        repository.git("init", "-q", "-b", "main", *options)
        return repository

    @classmethod
    def with_commit(cls, path: Path) -> Repository:
        repository = cls.make(path)
        (path / "sub").mkdir()
        repository.commit("sub/file", "one\n")
        return repository

    def git(self, *words: object, check: bool = True, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *map(str, words)],
            env={**os.environ, **_IDENTITY},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"git {words}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def commit(self, file: str, text: str) -> None:
        (self.path / file).write_text(text)
        self.git("add", "-f", file)
        self.git("commit", "-q", "-m", f"{file} is {text.strip()}")

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def worktrees(self) -> list[str]:
        """The paths of all but the main one."""
        listed = self.git("worktree", "list", "--porcelain").splitlines()
        paths = [line.partition(" ")[2] for line in listed if line.startswith("worktree ")]
        return paths[1:]

    def hook(self, name: str, script: str) -> None:
        path = self.path / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
