"""Volumes: opening, closing, and everything that is about a volume as a whole."""

from __future__ import annotations

import atexit
import builtins
import os
import uuid as _uuid
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Type, Union

from . import _native
from ._path import Path, _PathLike
from ._report import Report, report
from ._scan import Scan

_Source = Any


@dataclass(frozen=True)
class Space:
    """The sizes of a volume, as `os.statvfs` has them."""

    block_size: int
    total_blocks: int
    free_blocks: int
    available_blocks: int
    files: int
    free_files: int


# Volumes that a program leaves open are closed at its end, so that nothing is lost.
_open_volumes: "weakref.WeakSet[Volume]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for volume in list(_open_volumes):
        volume.close()


def _close(it: Any) -> Optional[OSError]:
    """Closes a file object or a volume. Returns its error."""
    try:
        it.close()
    except OSError as error:
        return error
    return None


def open(
    source: _Source,
    *,
    write: bool = False,
    no_recovery: bool = False,
    live: bool = False,
    partition: Optional[int] = None,
    offset: Optional[int] = None,
    log_device: Optional[Union[str, "os.PathLike[str]"]] = None,
    realtime_device: Optional[Union[str, "os.PathLike[str]"]] = None,
    cache_bytes: Optional[int] = None,
) -> "Volume":
    """Opens a volume: in an image file, on a block device, by descriptor or in a file object.

    `source` is a path, an `int` (a descriptor, which is opened again by its number in /proc), or an
    object with `seek` and `read`, and `write` and `flush` for writing. Without `write`, nothing is
    ever written: a dirty log is replayed in memory.

    Raises `NotXfsError` if there is no volume, `CorruptError`, `UnsupportedError`, and the errors
    of the host, such as `BlockingIOError` or `OSError` with EBUSY for a device in use.
    """
    def path(value: Any) -> Optional[bytes]:
        return None if value is None else os.fsencode(value)

    given = source
    if isinstance(source, (str, bytes, os.PathLike)):
        given = os.fsencode(source)
    native = _native.open(
        given,
        write=write,
        no_recovery=no_recovery,
        live=live,
        partition=partition,
        offset=offset,
        log_device=path(log_device),
        realtime_device=path(realtime_device),
        cache_bytes=cache_bytes,
    )
    return Volume(native)


def mkfs(
    target: _Source,
    *,
    size: Optional[int] = None,
    label: Optional[Union[str, bytes]] = None,
    uuid: Optional[Union[str, _uuid.UUID]] = None,
    options: Optional[Mapping[str, str]] = None,
    force: bool = False,
    source: Optional[Union[str, bytes, "os.PathLike[str]"]] = None,
) -> None:
    """Makes a volume in an image file, on a block device or in a file object.

    With `size`, a new image file of that many bytes is made. `options` has suboptions of mkfs.xfs
    by letter, such as `{"d": "agcount=4", "m": "reflink=0"}`. A device that holds something is
    refused (`FileExistsError`) without `force`. Options that are impossible raise `ValueError`, and
    nothing is written.

    With `source`, the volume gets a copy of this directory of the host, as `Volume.populate` makes
    it. If that fails, a new image file is removed.
    """
    given = target
    if isinstance(target, (str, bytes, os.PathLike)):
        given = os.fsencode(target)
    _native.mkfs(
        given,
        size=size,
        label=None if label is None else os.fsencode(label),
        uuid=None if uuid is None else list(_uuid.UUID(str(uuid)).bytes),
        options=dict(options or {}),
        force=force,
    )
    if source is None:
        return
    try:
        with open(target, write=True) as volume:
            volume.populate(source)
    except BaseException:
        if size is not None:
            os.remove(given)
        raise


class Volume:
    """An open volume. Make one with `ferroxfs.open`.

    As a context manager, it is closed at the end: files that are left are closed, everything is
    written in place, and the log is marked clean. Any number of threads may use a volume.
    """

    def __init__(self, native: _native.Volume):
        self._native = native
        # File objects have buffers, which must be written before the volume is closed.
        self._files: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._users: "weakref.WeakSet[Volume]" = weakref.WeakSet()
        _open_volumes.add(self)

    def __del__(self) -> None:
        # As a file of Python does.
        if hasattr(self, "_files") and not self.closed:
            self.close()

    def __enter__(self) -> "Volume":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        return f"<ferroxfs.Volume, {state}>"

    def close(self) -> None:
        """Closes the volume, and its file objects and the volumes of `as_user` before that.

        A second call does nothing. Raises the error of a write that was lost. The volume is closed
        nevertheless.
        """
        try:
            errors = [error for it in [*self._files, *self._users] if (error := _close(it))]
        finally:
            self._native.close()
        if errors:
            raise errors[0]

    @property
    def closed(self) -> bool:
        """Whether the volume is closed."""
        return bool(self._native.closed)

    @property
    def writable(self) -> bool:
        """Whether the volume was opened for writing."""
        return bool(self._native.writable)

    def sync(self) -> None:
        """Makes every change durable. Buffers of file objects must be flushed first."""
        self._native.sync()

    def populate(
        self, source: Union[str, bytes, "os.PathLike[str]"], target: _PathLike = "/"
    ) -> None:
        """Copies a directory of the host, with everything in it, to a directory of the volume.

        The copy keeps contents, holes, owners, modes, times, extended attributes, access control
        lists, symbolic and hard links, and devices. `target` is made if it does not exist, and gets
        the properties of `source`. Directories that exist are merged. Any other name that exists
        raises `FileExistsError`. An error ends the copy; files that were copied before stay.

        Raises `ValueError` if the image of this volume is in the directory.
        """
        self._native.populate(os.fsencode(source), Path(self, target)._bytes)

    def as_user(self, uid: int, gid: int, groups: Iterable[int] = ()) -> "Volume":
        """Returns this volume on behalf of a user, who may do as much as on Linux."""
        user = Volume(self._native.as_user(uid, gid, list(groups)))
        self._users.add(user)
        return user

    @property
    def root(self) -> Path:
        """The root directory."""
        return Path(self)

    def path(self, *parts: _PathLike) -> Path:
        """Returns a path of this volume."""
        return Path(self, *parts)

    def __truediv__(self, other: _PathLike) -> Path:
        return Path(self, other)

    def paths_of(self, inode: int) -> List[Path]:
        """Returns the paths of an inode number."""
        return [Path(self, bytes(path)) for path in self._native.paths_of(inode)]

    @property
    def label(self) -> str:
        """The label."""
        return os.fsdecode(bytes(self._native.label()))

    @property
    def uuid(self) -> _uuid.UUID:
        """The UUID."""
        return _uuid.UUID(self._native.uuid())

    def space(self) -> Space:
        """Returns the sizes of the volume."""
        return Space(*self._native.space())

    def check(self) -> Report:
        """Checks the volume for consistency. It must be open for reading."""
        return report(self._native.check())

    def scan(
        self,
        fields: Optional[Sequence[str]] = None,
        *,
        threads: int = 0,
        memory_bytes: Optional[int] = None,
        strict: bool = True,
    ) -> Scan:
        """Returns the inventory as an Arrow stream: one row for each inode, with its paths.

        `fields` are columns of the command `scan`; by default all of its own default. The volume
        must be open for reading. If it is damaged, the stream ends with an error. With
        `strict=False` it ends as usual, and `Scan.totals` has the findings.
        """
        if isinstance(fields, str):
            raise TypeError("fields is a list of names")
        wanted = None if fields is None else builtins.list(fields)
        return Scan(self._native.scan(wanted, threads, memory_bytes, strict))
