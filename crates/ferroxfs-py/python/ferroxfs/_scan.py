"""The inventory of a volume as an Arrow stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from . import _native


@dataclass(frozen=True)
class Totals:
    """The totals of a scan."""

    inodes: int
    """Number of rows."""
    errors: int
    """Number of findings. If it is not 0, rows are missing or a volume is damaged."""
    missing_inodes: int
    """Number of inodes that have no row because of a finding."""
    findings: List[Dict[str, Any]]
    """The findings, as the rows `error` of NDJSON have them."""


class Scan:
    """The rows of a scan, one for each inode, as a stream of Arrow record batches.

    Every program that knows `__arrow_c_stream__` reads it without a copy: `pyarrow.table(scan)`,
    `polars.DataFrame(scan)`, `duckdb.from_arrow(pyarrow.table(scan))`. Each time it is read, the
    volume is scanned again, even after `Volume.close`: a scan keeps its image open until it is
    deleted.
    """

    def __init__(self, native: _native.Scan):
        self._native = native

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def totals(self) -> Optional[Totals]:
        """The totals of the last stream that was read to its end. None if there is none yet."""
        found = self._native.totals()
        if found is None:
            return None
        inodes, errors, missing, facts = found
        rows = [json.loads(line) for line in facts.splitlines()]
        findings = [row for row in rows if row.get("row") == "error"]
        return Totals(inodes, errors, missing, findings)
