"""Removing a worktree run runs no program that its repository names: the run may have set it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.manage.operations import run_steps
from holdfast.manage.worktrees.git import find_filters, git
from tests.support.repositories import Repository
from tests.support.running import ended


class Traps:
    """Programs that note that they were run, and then do what git expects of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def program(self, name: str, then: str = "exit 0") -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n: >{self.folder}/{name}.ran\n{then}\n")
        path.chmod(0o755)
        return str(path)

    @property
    def ran(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.ran"))

    def forget(self) -> None:
        for path in self.folder.glob("*.ran"):
            path.unlink()


@pytest.fixture
def traps(tmp_path) -> Traps:
    return Traps(tmp_path / "traps")


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository.with_commit(tmp_path / "repo")


@pytest.fixture
def worktree(holdfast, repository) -> Repository:
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true", expect=0)
    info = ended("a")
    assert info.worktree is not None
    return Repository(Path(info.worktree["path"]))


def make_git_doubt(worktree: Repository) -> None:
    """Files with other times than git knows: it has to read them."""
    for path in worktree.path.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))


def plant_fsmonitor(worktree: Repository, traps: Traps) -> None:
    worktree.git("config", "core.fsmonitor", traps.program("fsmonitor", "printf '/\\0'"))


def plant_hooks(worktree: Repository, traps: Traps) -> None:
    names = ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc")
    for name in names:
        traps.program(name)
    worktree.git("config", "core.hooksPath", traps.folder)


def plant_hooks_in_the_usual_place(worktree: Repository, traps: Traps) -> None:
    there = Path(worktree.git("rev-parse", "--git-path", "hooks"))
    for name in ("post-index-change", "reference-transaction"):
        there.mkdir(exist_ok=True)
        shutil.copy(traps.program(name), there / name)


def plant_filter(worktree: Repository, traps: Traps) -> None:
    worktree.git("config", "filter.my.own.clean", traps.program("clean", "cat"))
    worktree.git("config", "filter.my.own.smudge", traps.program("smudge", "cat"))
    worktree.git("config", "filter.my.own.required", "true")
    use_filter(worktree, "my.own")


def plant_long_running_filter(worktree: Repository, traps: Traps) -> None:
    worktree.git("config", "filter.x=y.process", traps.program("process", "exit 1"))
    worktree.git("config", "filter.x=y.required", "true")
    use_filter(worktree, "x=y")


def plant_filter_of_the_worktree(worktree: Repository, traps: Traps) -> None:
    worktree.git("config", "extensions.worktreeConfig", "true")
    worktree.git("config", "--worktree", "filter.w.clean", traps.program("clean", "cat"))
    use_filter(worktree, "w")


def plant_included_filter(worktree: Repository, traps: Traps) -> None:
    file = traps.folder / "config"
    file.write_text(f'[filter "i"]\n\tclean = {traps.program("clean", "cat")}\n')
    worktree.git("config", "include.path", file)
    use_filter(worktree, "i")


def use_filter(worktree: Repository, name: str) -> None:
    common = Path(worktree.git("rev-parse", "--git-common-dir"))
    (common / "info").mkdir(exist_ok=True)
    (common / "info" / "attributes").write_text(f"* filter={name}\n")
    make_git_doubt(worktree)


def plant_other_programs(worktree: Repository, traps: Traps) -> None:
    for key in (
        *("core.pager", "pager.status", "core.editor", "core.askPass", "core.sshCommand"),
        *("diff.external", "diff.x.textconv", "diff.x.command", "gpg.program", "credential.helper"),
        *("merge.x.driver", "core.alternateRefsCommand", "uploadpack.packObjectsHook"),
        *("alias.status", "core.gitProxy", "sequence.editor", "trailer.x.command"),
    ):
        worktree.git("config", key, traps.program(key))
    worktree.git("config", "alias.status", f"!{traps.program('alias')}")
    common = Path(worktree.git("rev-parse", "--git-common-dir"))
    (common / "info").mkdir(exist_ok=True)
    (common / "info" / "attributes").write_text("* diff=x merge=x\n")
    make_git_doubt(worktree)


PLANTED = [
    plant_fsmonitor,
    plant_hooks,
    plant_hooks_in_the_usual_place,
    plant_filter,
    plant_long_running_filter,
    plant_filter_of_the_worktree,
    plant_included_filter,
    plant_other_programs,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_removal_runs_no_program_of_the_repository(holdfast, worktree, traps, plant, monkeypatch):
    plant(worktree, traps)
    traps.forget()
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_ASKPASS"):
        monkeypatch.setenv(name, traps.program(name))
    holdfast("clean", "--keep", "0", "--dry-run", expect=0)
    for words in (["diff"], ["diff", "--stat"], ["status"], ["discard", "--dry-run"], ["rm"]):
        holdfast(*words, "a", expect=0)
        assert traps.ran == [], words
    assert not worktree.path.exists(), "nothing was in it that would be lost"


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_diff_runs_no_program_of_the_repository(holdfast, worktree, traps, plant):
    (worktree.path / "sub" / "file").write_text("two\n")
    (worktree.path / "new").write_text("three\n")
    plant(worktree, traps)
    traps.forget()
    text = holdfast("diff", "a", expect=0).stdout
    assert "+two\n" in text
    assert "+three\n" in text
    assert holdfast("status", "a", "--json").json["worktree"]["changes"]["files"] == 2
    holdfast("discard", "a", expect=0)
    assert traps.ran == []


def test_the_traps_spring_when_git_is_asked_without_care(worktree, traps):
    """What the tests above rest on: git does run these."""
    for plant in (plant_fsmonitor, plant_filter, plant_hooks):
        plant(worktree, traps)
    traps.forget()
    worktree.git("status", "--porcelain")
    assert {"fsmonitor", "clean"} <= set(traps.ran)
    plant_other_programs(worktree, traps)
    (worktree.path / "sub" / "file").write_text("two\n")
    worktree.git("diff", check=False)
    assert {"diff.external", "diff.x.command"} & set(traps.ran)


def test_a_changed_file_with_a_filter_is_still_found(holdfast, worktree, traps):
    plant_filter(worktree, traps)
    (worktree.path / "sub" / "file").write_text("two\n")
    traps.forget()
    assert "1 uncommitted file" in holdfast("rm", "a", expect=4).stdout
    assert traps.ran == []


def test_nothing_is_fetched_for_a_look(holdfast, worktree, repository, traps):
    """A partial clone fetches what it lacks, through any program that its configuration names."""
    blob = worktree.git("rev-parse", "HEAD:sub/file")
    url = f"ext::{traps.program('transport', 'exit 1')}"
    for key, value in {
        "extensions.partialClone": "origin",
        "remote.origin.url": url,
        "remote.origin.promisor": "true",
        "remote.origin.partialCloneFilter": "blob:none",
        "protocol.ext.allow": "always",
    }.items():
        worktree.git("config", key, value)
    lost = repository.path / ".git" / "objects" / blob[:2] / blob[2:]
    lost.unlink()
    make_git_doubt(worktree)
    worktree.git("cat-file", "-p", blob, check=False)
    assert traps.ran == ["transport"], "git does fetch it"
    traps.forget()
    holdfast("rm", "a")
    assert traps.ran == []


def test_a_repository_inside_is_not_looked_into(holdfast, worktree, traps):
    """Git would ask it with the programs of its own configuration."""
    inner = Repository.with_commit(worktree.path / "inner")
    worktree.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    worktree.git("commit", "-q", "-m", "inner")
    inner.git("config", "core.fsmonitor", traps.program("inner", "printf '/\\0'"))
    inner.git("config", "filter.f.clean", traps.program("inner-clean", "cat"))
    (inner.path / ".git" / "info" / "attributes").write_text("* filter=f\n")
    make_git_doubt(inner)
    traps.forget()
    assert "inner in " in holdfast("rm", "a", expect=4).stdout
    (inner.path / "sub" / "file").write_text("two\n")
    (worktree.path / "new").write_text("x\n")
    holdfast("diff", "a", expect=0)
    holdfast("status", "a", expect=0)
    assert traps.ran == []
    assert (inner.path / "sub" / "file").exists()


def test_hooks_of_the_user_run_when_a_worktree_is_made(holdfast, repository, traps):
    repository.hook("post-checkout", f"exec {traps.program('post-checkout')}")
    repository.git("config", "core.fsmonitor", traps.program("fsmonitor", "printf '/\\0'"))
    holdfast("run", "-n", "b", "--worktree", "y", "-C", repository.path, "true", expect=0)
    ended("b")
    assert traps.ran == ["post-checkout"]


def test_filters_of_the_users_own_configuration_are_not_the_repositorys(
    repository, tmp_path, monkeypatch
):
    mine = tmp_path / "gitconfig"
    mine.write_text('[filter "lfs"]\n\tclean = cat\n[filter ""]\n\tclean = cat\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    repository.git("config", "filter.a.b.clean", "cat")
    repository.git("config", "--file", ".git/config", "filter.odd", "1")
    ceiling = str(tmp_path)
    found = run_steps(find_filters(str(repository.path), ceiling))
    assert found == ["filter.a.b"]
    steps = git(str(repository.path), "status", "--porcelain", without_filters=["filter.", *found])
    assert run_steps(steps).is_well
