"""File objects of Python over open files of a volume."""

from __future__ import annotations

import io
import os
from typing import IO, Any, List, Optional

from . import _native

_Data = Any


class RawFile(io.RawIOBase):
    """An open file with a position. `io` adds buffers and text to it."""

    def __init__(self, file: _native.File, name: str, readable: bool, writable: bool, append: bool):
        self._file = file
        self.name = name
        self._readable, self._writable, self._append = readable, writable, append
        self._position = 0

    def readable(self) -> bool:
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        self._check_open()
        return True

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readinto(self, buffer: Any) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")
        data = self._file.pread(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        self._check_open()
        parts: List[bytes] = []
        while True:
            left = max(self._file.size() - self._position, 0)
            data = self._file.pread(max(left, 1), self._position)
            if not data:
                return b"".join(parts)
            parts.append(data)
            self._position += len(data)

    def write(self, data: _Data) -> int:
        self._check_open()
        if self._append:
            self._position = self._file.size()
        count = self._file.pwrite(bytes(data), self._position)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        base = self._file.size() if whence == os.SEEK_END else bases[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        self._check_open()
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        self._check_open()
        size = self._position if size is None else size
        self._file.truncate(size)
        return size

    def sync(self, data_only: bool = False) -> None:
        """Makes the file durable, as `os.fsync` does. Flush buffers first."""
        self._check_open()
        self._file.sync(data_only)

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()


def parse_mode(mode: str) -> "tuple[bool, bool, bool, bool, bool, bool]":
    """Returns read, write, create, exclusive, truncate and append of a mode such as `r+b`."""
    kinds = [letter for letter in mode if letter in "rwax"]
    if len(kinds) != 1 or set(mode) - set("rwaxbt+") or len(set(mode)) != len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if "b" in mode and "t" in mode:
        raise ValueError("can't have text and binary mode at once")
    kind, plus = kinds[0], "+" in mode
    return (
        kind == "r" or plus,
        kind != "r" or plus,
        kind in "wax",
        kind == "x",
        kind == "w",
        kind == "a",
    )


def wrap(
    raw: RawFile,
    mode: str,
    buffering: int,
    encoding: Optional[str],
    errors: Optional[str],
    newline: Optional[str],
) -> IO[Any]:
    """Adds buffers and text to a raw file, as `open` does."""
    binary = "b" in mode
    if binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode takes no encoding, errors or newline argument")
    if buffering == 0:
        if not binary:
            raise ValueError("can't have unbuffered text I/O")
        return raw  # type: ignore[return-value]
    size = buffering if buffering > 1 else 128 * 1024
    buffer: Any
    if raw.readable() and raw.writable():
        buffer = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffer = io.BufferedWriter(raw, size)
    else:
        buffer = io.BufferedReader(raw, size)
    if binary:
        return buffer  # type: ignore[no-any-return]
    if encoding is None:
        encoding = "utf-8"
    return io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering=buffering == 1)
