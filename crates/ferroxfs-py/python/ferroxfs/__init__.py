"""XFS in user space: open, read, change, scan and check volumes.

>>> import ferroxfs, tempfile, os
>>> image = os.path.join(tempfile.mkdtemp(), "new.img")
>>> ferroxfs.mkfs(image, size=300 << 20, label="data")
>>> with ferroxfs.open(image, write=True) as volume:
...     etc = volume / "etc"
...     etc.mkdir()
...     _ = (etc / "hostname").write_text("box")
>>> with ferroxfs.open(image) as volume:
...     print((volume / "etc" / "hostname").read_text())
box

Paths follow `pathlib`, errors are `OSError`, and `Volume.scan` is an Arrow stream. No call holds
the GIL while it reads or writes a device.
"""

from ._errors import (
    CorruptError,
    NotXfsError,
    ShutdownError,
    UnsupportedError,
    XfsError,
)
from ._native import __version__
from ._path import Path, Stat, Xattrs
from ._report import Finding, Report
from ._scan import Scan, Totals
from ._volume import Space, Volume, mkfs, open

__all__ = [
    "CorruptError",
    "Finding",
    "NotXfsError",
    "Path",
    "Report",
    "Scan",
    "ShutdownError",
    "Space",
    "Stat",
    "Totals",
    "UnsupportedError",
    "Volume",
    "Xattrs",
    "XfsError",
    "__version__",
    "mkfs",
    "open",
]
