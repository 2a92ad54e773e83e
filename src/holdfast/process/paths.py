"""Paths made absolute: the current directory may be one that was removed, the user one without a
home directory."""

from __future__ import annotations

import os

from holdfast.errors import WrongUse


def absolute(path: str) -> str:
    """`os.path.abspath`; WrongUse where the path needs a current directory and there is none."""
    try:
        return os.path.abspath(path)
    except OSError as error:  # getcwd(2): ENOENT after an rmdir, EACCES below a closed directory
        raise WrongUse(
            f"the current directory can't be used: {error.strerror}; was it removed?",
            hint="go to one that exists, or use absolute paths (`run -C DIR`, cwd= in the library)",
        ) from error


def user_home() -> str | None:
    """The user's home directory; None where neither HOME nor the password database has one.

    Never a relative one: what is kept there would be somewhere else in each directory.
    """
    found = os.environ.get("HOME")
    if not found:
        import pwd

        try:
            found = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return found if os.path.isabs(found) else None
