"""The report of a check."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple


@dataclass(frozen=True)
class Finding:
    """One finding of a check: damage, or something that is worth knowing."""

    code: str
    """The stable name of the finding. The page `findings.md` of the project lists all."""
    severity: str
    """`fatal`, `loss`, `unsafe`, `counter`, `preen` or `note`."""
    place: str
    """The place on the volume, as text."""
    found: str
    """The value that was found."""
    expected: str
    """The value that was expected. Empty if there is no single one."""
    path: Optional[str]
    """A path of the inode, if there is one."""
    meaning: str
    """The meaning of the code."""
    group: Optional[int]
    """The allocation group."""
    block: Optional[int]
    """The block in its group."""
    inode: Optional[int]
    """The inode number."""
    byte_offset: Optional[int]
    """The first byte of the place on the device."""

    def __str__(self) -> str:
        expected = f", expected {self.expected}" if self.expected else ""
        return f"{self.code}: {self.place}: {self.found}{expected}"


@dataclass(frozen=True)
class Report:
    """The result of a check."""

    findings: List[Finding]
    """All findings: the causes first, then what follows from them."""
    unchecked: List[str]
    """The parts of the volume that could not be checked, and why."""
    groups: int
    """Number of allocation groups that were read."""
    inodes: int
    """Number of inodes that were read."""
    directories: int
    """Number of directories that were read."""
    bytes_read: int
    """Number of bytes of metadata that were read."""
    is_clean: bool
    """Whether nothing is damaged."""
    is_complete: bool
    """Whether everything was checked, and every finding is in the report."""
    dropped: int
    """Number of findings that did not fit into the report."""
    seconds: float
    """The time that the check took."""

    def __bool__(self) -> bool:
        """A report is true if the volume is clean and was checked whole."""
        return self.is_clean and self.is_complete


def _finding(parts: Tuple[Any, ...]) -> Finding:
    (code, severity, place, found, expected, path, meaning), where = parts
    path = None if path is None else os.fsdecode(bytes(path))
    return Finding(code, severity, place, found, expected, path, meaning, *where)


def report(parts: Tuple[Any, ...]) -> Report:
    findings, unchecked, coverage, (clean, complete), dropped, seconds = parts
    groups, inodes, directories, bytes_read = coverage
    return Report(
        findings=[_finding(it) for it in findings],
        unchecked=list(unchecked),
        groups=groups,
        inodes=inodes,
        directories=directories,
        bytes_read=bytes_read,
        is_clean=clean,
        is_complete=complete,
        dropped=dropped,
        seconds=seconds,
    )
