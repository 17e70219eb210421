"""Scans as Arrow streams."""

import ferroxfs
import pytest

pyarrow = pytest.importorskip("pyarrow")
compute = pytest.importorskip("pyarrow.compute")


def test_pyarrow_reads_every_inode(volume):
    scan = volume.scan()
    assert scan.totals is None
    table = pyarrow.table(scan)
    paths = {path for paths in table["paths"].to_pylist() for path in paths}
    assert paths == {str(path) for path in volume.root.rglob("*")} | {"/"}
    assert scan.totals.inodes == table.num_rows == 9 and scan.totals.errors == 0
    small = table.filter(compute.equal(table["size"], 4)).select(["paths", "type"]).to_pylist()
    types = {path: row["type"] for row in small for path in row["paths"]}
    assert types["/etc/hostname"] == "file"
    assert pyarrow.table(scan) == table, "a scan can be read again"


def test_columns_are_chosen(volume):
    table = pyarrow.table(volume.scan(["ino", "symlink"], threads=1, memory_bytes=64 << 20))
    assert table.column_names == ["ino", "symlink", "symlink_bytes"]
    assert table["symlink"].to_pylist().count("hostname") == 1
    with pytest.raises(ValueError):
        volume.scan(["none"])
    with pytest.raises(TypeError):
        volume.scan("ino")


def test_stream_that_is_not_read_costs_nothing(volume):
    scan = volume.scan()
    for _ in range(10):
        scan.__arrow_c_stream__()
        reader = pyarrow.RecordBatchReader.from_stream(scan)
        reader.schema
        del reader
    assert scan.totals is None


def test_stream_outlives_its_volume(image):
    volume = ferroxfs.open(image)
    reader = pyarrow.RecordBatchReader.from_stream(volume.scan(["ino"]))
    volume.close()
    assert reader.read_all().num_rows == 9


def test_scan_of_a_file_object(image):
    with open(image, "rb") as file, ferroxfs.open(file) as volume:
        assert pyarrow.table(volume.scan()).num_rows == 9


def test_polars_reads_the_stream(volume):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(volume.scan())
    largest = frame.filter(polars.col("type") == "file").sort("size").tail(1)
    assert largest["paths"].to_list() == [["/srv/www/index.html"]]


def test_duckdb_queries_the_stream(volume):
    duckdb = pytest.importorskip("duckdb")
    rows = pyarrow.RecordBatchReader.from_stream(volume.scan())
    count = duckdb.sql("select type, count(*) from rows group by type order by type").fetchall()
    assert dict(count) == {"directory": 5, "file": 3, "symlink": 1}
