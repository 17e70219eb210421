"""Paths of a volume, in the manner of `pathlib`."""

from __future__ import annotations

import os
import posixpath
import re
import stat as _stat
from dataclasses import dataclass
from fnmatch import translate
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Callable,
    Iterator,
    List,
    MutableMapping,
    Optional,
    Tuple,
    Union,
)

from . import _files
from . import _native as _module

if TYPE_CHECKING:
    from ._volume import Volume

_PathLike = Union[str, bytes, "os.PathLike[str]", "Path"]


@dataclass(frozen=True)
class Stat:
    """The properties of a file, with the names of `os.stat_result`."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_birthtime_ns: int
    rdev_major: int
    rdev_minor: int
    extents: int
    generation: int
    project_id: int
    xflags: int
    attr_extents: int

    @property
    def st_atime(self) -> float:
        return self.st_atime_ns / 1e9

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        return self.st_ctime_ns / 1e9

    @property
    def st_birthtime(self) -> float:
        return self.st_birthtime_ns / 1e9


def _stat_of(parts: Tuple[Any, ...]) -> Stat:
    first, (major, minor, extents), times, rest = parts
    mode, number, nlink, uid, gid, size, blocks = first
    atime, mtime, ctime, birth = (seconds * 1_000_000_000 + part for seconds, part in times)
    generation, project_id, xflags, attr_extents = rest
    return Stat(
        st_mode=mode,
        st_ino=number,
        st_nlink=nlink,
        st_uid=uid,
        st_gid=gid,
        st_size=size,
        st_blocks=blocks,
        st_atime_ns=atime,
        st_mtime_ns=mtime,
        st_ctime_ns=ctime,
        st_birthtime_ns=birth,
        rdev_major=major,
        rdev_minor=minor,
        extents=extents,
        generation=generation,
        project_id=project_id,
        xflags=xflags,
        attr_extents=attr_extents,
    )


class Xattrs(MutableMapping[str, bytes]):
    """The extended attributes of a file, by their names with namespaces, such as `user.origin`."""

    def __init__(self, path: "Path", follow: bool):
        self._path, self._follow = path, follow

    def __getitem__(self, name: str) -> bytes:
        native, path = self._path._native, self._path._bytes
        try:
            return native.getxattr(path, self._follow, os.fsencode(name))
        except OSError as error:
            raise self._missing(name, error) from error

    def __setitem__(self, name: str, value: bytes) -> None:
        native, path = self._path._native, self._path._bytes
        native.setxattr(path, self._follow, os.fsencode(name), bytes(value), 0)

    def __delitem__(self, name: str) -> None:
        native, path = self._path._native, self._path._bytes
        try:
            native.removexattr(path, self._follow, os.fsencode(name))
        except OSError as error:
            raise self._missing(name, error) from error

    def __iter__(self) -> Iterator[str]:
        names, error = self._path._native.listxattr(self._path._bytes, self._follow)
        yield from (os.fsdecode(name) for name in names)
        if error is not None:
            raise error

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @staticmethod
    def _missing(name: str, error: OSError) -> Exception:
        import errno

        return KeyError(name) if error.errno == errno.ENODATA else error


class Path:
    """A path of a volume. It begins with `/` and is only looked up by the calls that use it.

    Names that are not UTF-8 are kept with surrogates, as `os.fsdecode` does.
    """

    __slots__ = ("_text", "volume")

    def __init__(self, volume: "Volume", *parts: _PathLike):
        self.volume = volume
        text = posixpath.join("/", *(_text_of(part) for part in parts))
        # ".." stays, because what it means depends on symbolic links.
        names = [name for name in text.split("/") if name not in ("", ".")]
        self._text = "/" + "/".join(names)

    # The path itself.

    @property
    def _bytes(self) -> bytes:
        return os.fsencode(self._text)

    @property
    def _native(self) -> "_module.Volume":
        return self.volume._native

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Path({self._text!r})"

    def __truediv__(self, other: _PathLike) -> "Path":
        return Path(self.volume, self._text, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self._text == other._text and self.volume is other.volume

    def __lt__(self, other: "Path") -> bool:
        return self.parts < other.parts

    def __hash__(self) -> int:
        return hash((self._text, id(self.volume)))

    @property
    def parts(self) -> Tuple[str, ...]:
        """The components: `/`, then each name."""
        return ("/", *(name for name in self._text.split("/") if name))

    @property
    def name(self) -> str:
        """The last component, or an empty string for the root."""
        return posixpath.basename(self._text)

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return self._split_suffix()[0]

    @property
    def suffix(self) -> str:
        """The last suffix of the name, with its dot, or an empty string."""
        return self._split_suffix()[1]

    def _split_suffix(self) -> Tuple[str, str]:
        return posixpath.splitext(self.name)

    @property
    def parent(self) -> "Path":
        """The path without its last component. That of the root is the root."""
        return Path(self.volume, posixpath.dirname(self._text))

    @property
    def parents(self) -> List["Path"]:
        """All paths above this one, the nearest first."""
        found, path = [], self
        while path._text != "/":
            path = path.parent
            found.append(path)
        return found

    def joinpath(self, *others: _PathLike) -> "Path":
        """Returns this path with further components."""
        return Path(self.volume, self._text, *others)

    def with_name(self, name: str) -> "Path":
        """Returns the path with another last component."""
        if not name or "/" in name or name == ".":
            raise ValueError(f"invalid name {name!r}")
        return self.parent / name

    def with_suffix(self, suffix: str) -> "Path":
        """Returns the path with another suffix."""
        return self.with_name(self.stem + suffix)

    def relative_to(self, other: _PathLike) -> str:
        """Returns this path relative to one above it, as a string."""
        above = Path(self.volume, other)
        if self.parts[: len(above.parts)] != above.parts:
            raise ValueError(f"{self._text!r} is not below {str(above)!r}")
        return "/".join(self.parts[len(above.parts) :]) or "."

    def match(self, pattern: str) -> bool:
        """Returns whether the name matches a pattern of `fnmatch`."""
        return re.match(translate(pattern), self.name) is not None

    # Looking.

    def stat(self, *, follow_symlinks: bool = True) -> Stat:
        """Returns the properties of the file."""
        return _stat_of(self._native.stat(self._bytes, follow_symlinks))

    def lstat(self) -> Stat:
        """Returns the properties of the file, or of the link itself."""
        return self.stat(follow_symlinks=False)

    def _has_type(self, kind: Callable[[int], bool], follow: bool = True) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def exists(self) -> bool:
        """Returns whether the path leads to a file of any kind."""
        return self._has_type(lambda mode: True)

    def is_file(self) -> bool:
        """Returns whether the path leads to a regular file."""
        return self._has_type(_stat.S_ISREG)

    def is_dir(self) -> bool:
        """Returns whether the path leads to a directory."""
        return self._has_type(_stat.S_ISDIR)

    def is_symlink(self) -> bool:
        """Returns whether the path is a symbolic link."""
        return self._has_type(_stat.S_ISLNK, follow=False)

    def readlink(self) -> str:
        """Returns the target of a symbolic link."""
        return os.fsdecode(self._native.readlink(self._bytes))

    def samefile(self, other: _PathLike) -> bool:
        """Returns whether two paths lead to one file."""
        return self.stat().st_ino == Path(self.volume, other).stat().st_ino

    @property
    def xattrs(self) -> Xattrs:
        """The extended attributes of the file, as a mapping that can be changed."""
        return Xattrs(self, follow=True)

    @property
    def lxattrs(self) -> Xattrs:
        """The extended attributes of the file, or of the link itself."""
        return Xattrs(self, follow=False)

    # Listing.

    def iterdir(self) -> Iterator["Path"]:
        """Lists the directory. Damage is raised after all names that can be read."""
        for path, _ in self._entries():
            yield path

    def _entries(self) -> Iterator[Tuple["Path", Optional[int]]]:
        entries, error = self._native.listdir(self._bytes)
        for name, _, bits in entries:
            yield self / name, bits
        if error is not None:
            raise error

    def walk(
        self,
        top_down: bool = True,
        on_error: Optional[Callable[[OSError], object]] = None,
        follow_symlinks: bool = False,
    ) -> Iterator[Tuple["Path", List[str], List[str]]]:
        """Walks the tree, as `pathlib.Path.walk` does.

        An error is ignored if `on_error` is None, as there. Pass `on_error` to see damage.
        """
        waiting: List[Any] = [self]
        while waiting:
            path = waiting.pop()
            if isinstance(path, tuple):
                yield path
                continue
            directories: List[str] = []
            others: List[str] = []
            try:
                for child, bits in path._entries():
                    is_directory = bits is not None and _stat.S_ISDIR(bits)
                    if bits is None or (follow_symlinks and _stat.S_ISLNK(bits)):
                        is_directory = child.is_dir()
                    (directories if is_directory else others).append(child.name)
            except OSError as error:
                if on_error is not None:
                    on_error(error)
                if not directories and not others:
                    continue
            if top_down:
                yield path, directories, others
            else:
                waiting.append((path, directories, others))
            waiting += [path / name for name in reversed(directories)]

    def glob(self, pattern: str) -> Iterator["Path"]:
        """Yields the paths below this one that match a pattern. `**` matches any directories."""
        if not pattern or pattern.startswith("/"):
            raise ValueError(f"unacceptable pattern: {pattern!r}")
        names = [name for name in pattern.split("/") if name]
        seen = set()
        for path in self._glob(names):
            if path not in seen:
                seen.add(path)
                yield path

    def rglob(self, pattern: str) -> Iterator["Path"]:
        """Yields the paths that match a pattern in this directory and all below it."""
        return self.glob(f"**/{pattern}")

    def _glob(self, names: List[str]) -> Iterator["Path"]:
        if not names:
            yield self
            return
        first, rest = names[0], names[1:]
        if first == "**":
            yield from self._glob(rest)
            for child, bits in self._entries_of_directory():
                is_directory = child.is_dir() if bits is None else _stat.S_ISDIR(bits)
                if is_directory and not child.is_symlink():
                    yield from child._glob(names)
            return
        if not any(letter in first for letter in "*?["):
            child = self / first
            if child.exists() or child.is_symlink():
                yield from child._glob(rest)
            return
        matches = re.compile(translate(first)).match
        for child, _ in self._entries_of_directory():
            if matches(child.name):
                yield from child._glob(rest)

    def _entries_of_directory(self) -> List[Tuple["Path", Optional[int]]]:
        try:
            return list(self._entries())
        except NotADirectoryError:
            return []

    # Contents.

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
        *,
        permissions: int = 0o644,
    ) -> IO[Any]:
        """Opens the file, as `open` does. Text is UTF-8 unless `encoding` says otherwise."""
        read, write, create, exclusive, truncate, append = _files.parse_mode(mode)
        file = self._native.open(
            self._bytes,
            read=read,
            write=write,
            create=create,
            exclusive=exclusive,
            truncate=truncate,
            mode=permissions,
        )
        raw = _files.RawFile(file, self._text, read, write, append)
        try:
            opened = _files.wrap(raw, mode, buffering, encoding, errors, newline)
        except (LookupError, ValueError):
            raw.close()
            raise
        self.volume._files.add(opened)
        return opened

    def read_bytes(self) -> bytes:
        """Reads the whole file."""
        return bytes(self._native.read(self._bytes))

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Reads the whole file as text."""
        with self.open("r", encoding=encoding, errors=errors) as file:
            return str(file.read())

    def write_bytes(self, data: Any) -> int:
        """Replaces the contents of the file, and makes it if it is missing."""
        with self.open("wb") as file:
            return int(file.write(data))

    def write_text(self, text: str, encoding: str = "utf-8", errors: str = "strict") -> int:
        """Replaces the contents of the file with text, and makes it if it is missing."""
        with self.open("w", encoding=encoding, errors=errors) as file:
            return int(file.write(text))

    # Changing names and attributes.

    def touch(self, mode: int = 0o644, exist_ok: bool = True) -> None:
        """Makes the file if it is missing, and sets its times to now."""
        import time

        self._native.open(
            self._bytes, read=True, write=True, create=True, exclusive=not exist_ok,
            truncate=False, mode=mode,
        ).close()
        now = time.time_ns()
        self.utime(ns=(now, now))

    def mkdir(self, mode: int = 0o755, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory."""
        try:
            self._native.mkdir(self._bytes, mode)
        except FileNotFoundError:
            if not parents or self._text == "/":
                raise
            self.parent.mkdir(parents=True, exist_ok=True)
            self.mkdir(mode, exist_ok=exist_ok)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a name of a file that is no directory."""
        try:
            self._native.unlink(self._bytes)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self) -> None:
        """Removes an empty directory."""
        self._native.rmdir(self._bytes)

    def rmtree(self) -> None:
        """Removes a directory and everything in it."""
        self._native.remove_tree(self._bytes)

    def rename(self, target: _PathLike) -> "Path":
        """Renames the file. An existing file at the target is an error."""
        to = Path(self.volume, target)
        self._native.rename(self._bytes, to._bytes, False)
        return to

    def replace(self, target: _PathLike) -> "Path":
        """Renames the file, and replaces an existing one at the target in the same step."""
        to = Path(self.volume, target)
        self._native.rename(self._bytes, to._bytes, True)
        return to

    def symlink_to(self, target: Union[str, bytes, "Path"]) -> None:
        """Makes this path a symbolic link to a target."""
        text = target if isinstance(target, bytes) else os.fsencode(str(target))
        self._native.symlink(text, self._bytes)

    def hardlink_to(self, target: _PathLike) -> None:
        """Makes this path another name of an existing file."""
        self._native.link(Path(self.volume, target)._bytes, self._bytes)

    def _set(self, follow: bool = True, **changes: Optional[int]) -> None:
        values = dict.fromkeys(("mode", "uid", "gid", "atime", "mtime"))
        values.update(changes)
        self._native.set_attributes(self._bytes, follow, **values)

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permission bits."""
        self._set(follow_symlinks, mode=mode)

    def chown(self, uid: int = -1, gid: int = -1, *, follow_symlinks: bool = True) -> None:
        """Sets owner and group. -1 leaves one as it is."""
        kept = {"uid": uid, "gid": gid}
        self._set(follow_symlinks, **{key: it for key, it in kept.items() if it != -1})

    def utime(self, *, ns: Tuple[int, int], follow_symlinks: bool = True) -> None:
        """Sets access and modification time, in nanoseconds since 1970."""
        self._set(follow_symlinks, atime=ns[0], mtime=ns[1])


def _text_of(part: _PathLike) -> str:
    if isinstance(part, Path):
        return part._text
    return os.fsdecode(part)
