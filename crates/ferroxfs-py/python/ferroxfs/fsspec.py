"""A file system of fsspec over a volume: `xfs://`.

>>> import ferroxfs, fsspec, os, tempfile
>>> image = os.path.join(tempfile.mkdtemp(), "new.img")
>>> ferroxfs.mkfs(image, size=300 << 20)
>>> with ferroxfs.open(image, write=True) as volume:
...     _ = (volume / "note").write_text("kept")
>>> with fsspec.open(f"xfs://note::{image}", "rt") as file:
...     print(file.read())
kept
"""

from __future__ import annotations

import stat as _stat
from typing import Any, Dict, List, Optional, Union

import fsspec
from fsspec.spec import AbstractFileSystem

from . import _volume
from ._path import Path

_TYPES = {_stat.S_IFDIR: "directory", _stat.S_IFREG: "file", _stat.S_IFLNK: "link"}


class XfsFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of a volume.

    `fo` is the image: a path, an open file, or a URL of another file system of fsspec. In a chained
    URL, as in `xfs://etc/hostname::s3://bucket/disk.img`, fsspec fills it in. With `write` the
    volume is opened for writing, and `close` must be called.
    """

    protocol = "xfs"
    root_marker = ""
    cachable = False

    def __init__(
        self,
        fo: Any = "",
        *,
        write: bool = False,
        target_protocol: Optional[str] = None,
        target_options: Optional[Dict[str, Any]] = None,
        open_options: Optional[Dict[str, Any]] = None,
        **storage_options: Any,
    ):
        super().__init__(**storage_options)
        self._target: Any = None
        source = fo
        if isinstance(fo, str) and (target_protocol not in (None, "file", "local") or "://" in fo):
            options = dict(target_options or {})
            if target_protocol is not None:
                options["protocol"] = target_protocol
            opener = fsspec.open(fo, mode="r+b" if write else "rb", **options)
            self._target = source = opener.open()
        self.volume = _volume.open(source, write=write, **(open_options or {}))

    def close(self) -> None:
        """Closes the volume, and the file that it is in if this object has opened it."""
        self.volume.close()
        if self._target is not None:
            self._target.close()

    def _path(self, path: str) -> Path:
        return Path(self.volume, self._strip_protocol(path))

    def _entry(self, path: Path, parent: str) -> Dict[str, Any]:
        found = path.lstat()
        kind = _TYPES.get(_stat.S_IFMT(found.st_mode), "other")
        name = str(path).lstrip("/")
        if kind == "link":
            try:
                target = path.stat()
                is_directory = _stat.S_ISDIR(target.st_mode)
                kind, found = ("directory" if is_directory else "file"), target
            except FileNotFoundError:
                pass
        return {
            "name": name,
            "size": found.st_size if kind != "directory" else 0,
            "type": kind,
            "islink": path.is_symlink(),
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "ino": found.st_ino,
            "nlink": found.st_nlink,
            "mtime": found.st_mtime,
            "created": found.st_birthtime,
        }

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        return self._entry(self._path(path), path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Union[List[Any], List[str]]:
        here = self._path(path)
        paths = list(here.iterdir()) if here.is_dir() else [here]
        if not here.exists():
            raise FileNotFoundError(path)
        entries = sorted((self._entry(it, path) for it in paths), key=lambda it: str(it["name"]))
        return entries if detail else [str(entry["name"]) for entry in entries]

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        return self._path(path).open(mode if "b" in mode else mode + "b")

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        taken = ("buffering", "encoding", "errors", "newline")
        options = {key: it for key, it in kwargs.items() if key in taken}
        return self._path(path).open(mode, **options)

    def created(self, path: str) -> Any:
        import datetime

        when = self._path(path).stat().st_birthtime
        return datetime.datetime.fromtimestamp(when, datetime.timezone.utc)

    def modified(self, path: str) -> Any:
        import datetime

        when = self._path(path).stat().st_mtime
        return datetime.datetime.fromtimestamp(when, datetime.timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self._path(path).mkdir(parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._path(path).mkdir(parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self._path(path).rmdir()

    def _rm(self, path: str) -> None:
        self._path(path).unlink()

    def rm_file(self, path: str) -> None:
        self._path(path).unlink()

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        for one in [path] if isinstance(path, str) else path:
            here = self._path(one)
            if not (here.is_dir() and not here.is_symlink()):
                here.unlink()
            elif recursive:
                here.rmtree()
            else:
                here.rmdir()

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        self._path(path1).replace(self._path(path2))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        source, target = self._path(path1), self._path(path2)
        if source.is_dir():
            target.mkdir(exist_ok=True)
            return
        with source.open("rb") as reader, target.open("wb") as writer:
            while True:
                block = reader.read(1 << 20)
                if not block:
                    break
                writer.write(block)
