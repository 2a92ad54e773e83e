"""One watch of files and directories: it tells what has changed, and when it can't tell."""

from __future__ import annotations

from holdfast.manage.operations import run_steps
from holdfast.manage.reading.inotify import FileWatch


def _told(watch: FileWatch) -> set[str] | None:
    def wait():
        yield watch.until_change(seconds=30)

    run_steps(wait())
    return watch.take()


def test_it_tells_which_file_and_which_name_of_a_directory(tmp_path):
    written, other = tmp_path / "written", tmp_path / "other"
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (written, other):
        path.touch()
    watch = FileWatch()
    try:
        assert all(watch.add(str(path)) for path in (written, other, folder))
        assert watch.take() == set()
        written.write_bytes(b"x")
        assert _told(watch) == {str(written)}
        (folder / "new").touch()
        assert _told(watch) == {f"{folder}/new"}
        (folder / "new").unlink()
        assert _told(watch) == {f"{folder}/new"}
        watch.remove(str(written))
        written.write_bytes(b"y")
        other.write_bytes(b"y")
        assert _told(watch) == {str(other)}
    finally:
        watch.close()


def test_a_file_that_was_replaced_is_watched_anew(tmp_path):
    path = tmp_path / "file"
    path.touch()
    watch = FileWatch()
    try:
        watch.add(str(path))
        path.unlink()
        assert _told(watch) == {str(path)}
        assert not watch.add(str(path))
        path.touch()
        assert watch.add(str(path))
        path.write_bytes(b"x")
        assert _told(watch) == {str(path)}
    finally:
        watch.close()


def test_a_shared_watch_tells_nothing_for_sure(tmp_path):
    watch = FileWatch(is_shared=True)
    try:
        watch.add(str(tmp_path))
        (tmp_path / "new").touch()
        assert watch.take() is None
    finally:
        watch.close()
