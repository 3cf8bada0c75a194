"""Reading from and writing to files: nobody waits for ever, and nobody ever sees half of one."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from certiforest.words import setting


class FileError(OSError):
    """A path is not a file that can be read, or not one that can be written."""


def check_readable(path: str | os.PathLike[str], what: str) -> None:
    """Refuse what is no regular file: a pipe without a writer would be waited for without end."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileError(f"Expected a {what}, got {path}, which does not exist.") from None
    except (OSError, ValueError) as error:  # too long, a loop of links, a zero byte
        raise FileError(f"Expected a {what}, got {path} ({_reason(error)}).") from None
    if not stat.S_ISREG(mode):
        raise FileError(f"Expected a {what}, got {_kind(mode)} {path}.")


def check_writable(path: str | os.PathLike[str], *, replace: bool) -> None:
    """Refuse, before any work is done, to write where a file is, or where none can be.

    Raises
    ------
    FileError
        If ``path`` exists and is not to be replaced, is no regular file, or is in no directory to write to.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except (OSError, ValueError) as error:
        raise FileError(f"Expected a name that a file can have, got {path} ({_reason(error)}).") from None
    if found is not None and not stat.S_ISLNK(found.st_mode) and not stat.S_ISREG(found.st_mode):
        raise FileError(f"Expected a file to write, got {_kind(found.st_mode)} {path}.")
    if found is not None and not replace:
        raise FileError(
            f"Expected a new file, got {path}, which exists. Allow to {setting('replace', None, '--force')}."
        )
    target = _target(path)
    if target.exists() and not target.is_file():
        raise FileError(f"Expected a file to write, got {_kind(target.stat().st_mode)} {target} behind {path}.")
    if not target.parent.is_dir():
        raise FileError(f"Expected an existing directory for {path}, got none at {target.parent}.")
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"Expected a directory that can be written to, got {target.parent}.")


def write_atomically(
    path: str | os.PathLike[str], content: str | bytes | Iterable[str | bytes], *, replace: bool = True
) -> None:
    """Write ``content`` to ``path`` so that a reader, at any moment, sees the old file or the whole new one.

    Content may also come piece by piece. A link is followed: what it leads to is written. Without ``replace`` a file
    that came into being meanwhile is kept, and `FileExistsError` raised.
    """
    target = _target(path)
    if target.exists() and not target.is_file():
        raise FileError(f"Expected a file to write, got {_kind(target.stat().st_mode)} {path}.")
    try:
        # A name of its own, not one made of the file's, which may be as long as names can be.
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=".certiforest-", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in [content] if isinstance(content, (str, bytes)) else content:
                    file.write(piece.encode(errors="surrogateescape") if isinstance(piece, str) else piece)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(scratch, 0o666 & ~umask)  # mkstemp makes private files; a model is an ordinary one
            if replace or not _link(scratch, target):
                os.replace(scratch, target)
        finally:
            Path(scratch).unlink(missing_ok=True)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _link(scratch: str, target: Path) -> bool:
    """Give a file its name unless that is taken; return whether the file system can do so."""
    try:
        os.link(scratch, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: look, then rename
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        return False
    return True


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file that is meant: where a link leads to."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise FileError(f"Expected a file to write, got {path}, a link that leads in a circle.")
    return target


class DigestedFile(io.FileIO):
    """A file whose SHA-256 is known when it has been read through."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.fspath(path))
        self.sha256 = hashlib.sha256()

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        n_bytes = super().readinto(buffer) or 0
        self.sha256.update(memoryview(buffer)[:n_bytes])
        return n_bytes


def file_behind(path: str | os.PathLike[str]) -> Any:
    """Return what is the same for all names of one file, links of both kinds among them."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except (OSError, ValueError):  # none yet
        return os.path.realpath(path)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "the directory"
    return "the pipe" if stat.S_ISFIFO(mode) else "the device or socket"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
