"""Exceptions. Every error of a volume is an `OSError` with the errno of Linux."""

from __future__ import annotations

import errno as _errno
import os
from typing import Optional, Tuple, Union

_Name = Optional[Union[str, bytes]]


class XfsError(OSError):
    """An error that only a volume of XFS can have.

    Other errors are the classes that `os` raises: `FileNotFoundError`, `PermissionError` and so on.
    """


class CorruptError(XfsError):
    """A structure of the volume is damaged."""

    structure: str
    """The name of the structure, such as `inode`."""
    address: str
    """The address of the structure, as text."""
    check: str
    """The check that has failed, with its values."""


class UnsupportedError(XfsError):
    """The volume or the file has a format or feature that is refused."""


class NotXfsError(XfsError):
    """The file or device holds no volume of XFS, or more than one."""


class ShutdownError(XfsError):
    """The volume was shut down, because its log could not be written."""


_CLASSES = {
    it.__name__: it for it in (CorruptError, NotXfsError, ShutdownError, UnsupportedError)
}


def make(
    name: str,
    errno: int,
    message: str,
    path: Optional[bytes],
    damage: Optional[Tuple[str, str, str]],
) -> OSError:
    """Makes the exception of an error. The native part calls this."""
    filename: _Name = None if path is None else os.fsdecode(path)
    # OSError itself chooses FileNotFoundError and its like by the errno.
    kind = _CLASSES.get(name, OSError)
    if name == "" and errno not in _errno.errorcode:
        errno = _errno.EIO
    error = kind(errno, message, filename) if filename is not None else kind(errno, message)
    if isinstance(error, CorruptError):
        error.structure, error.address, error.check = damage or ("", "", message)
    return error
