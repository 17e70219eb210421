"""Writes a dataset of random rows: `generate.py DIR --volumes 10 --inodes 10000000 --days 1`.

The files have the schema, encodings and order of those of `ferroxfs scan`. The same seed gives the
same rows. From each day to the next, some inodes are created, removed and changed.

Distributions: sizes are log-normal with a tail of large files, owners follow Zipf's law, ages are
exponential, one row of twelve is a directory, and files lie near their directory.
"""

import argparse
import datetime
import json
import pathlib
import uuid

import numpy
import pyarrow as arrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

CHUNK = 500_000
FILES_OF_DIRECTORY = 12
EPOCH = datetime.date(1970, 1, 1)
TOPS = ["home", "scratch", "srv", "var"]
ENDINGS = [".dat", ".txt", ".log", ".jpg", ".h5", ".c", ".tar.gz", ""]
DELTA = [
    "ino", "ag", "mode", "nlink", "uid", "gid", "project_id", "size", "blocks", "atime", "mtime",
    "ctime", "btime", "extents", "attr_extents", "xflags", "rdev", "change_count", "lsn", "flags",
    "flags2",
]  # fmt: skip
TIME = arrow.timestamp("ns", tz="UTC")


def schema():
    u32, u64, text = arrow.uint32(), arrow.uint64(), arrow.string()
    columns = [
        ("volume_label", text), ("ino", u64), ("generation", u32), ("ag", u32), ("type", text),
        ("mode", u32), ("nlink", u32), ("uid", u32), ("gid", u32), ("project_id", u32),
        ("size", u64), ("blocks", u64), ("atime", TIME), ("mtime", TIME), ("ctime", TIME),
        ("btime", TIME), ("extents", u64), ("attr_extents", u32), ("xflags", u32), ("rdev", u64),
        ("change_count", u64), ("lsn", u64), ("flags", u32), ("flags2", u64),
        ("paths", arrow.list_(arrow.field("item", text))),
        ("paths_bytes", arrow.list_(arrow.field("item", arrow.binary()))),
        ("orphan", arrow.bool_()),
        ("parents", arrow.list_(arrow.field("item", u64))),
        ("parent_generations", arrow.list_(arrow.field("item", u32))),
    ]  # fmt: skip
    can_be_null = {"atime", "mtime", "ctime", "btime", "paths_bytes"}
    return arrow.schema([arrow.field(name, kind, name in can_be_null) for name, kind in columns])


def texts(numbers, words):
    return arrow.DictionaryArray.from_arrays(arrow.array(numbers), arrow.array(words)).cast("string")


def joined(*parts):
    return compute.binary_join_element_wise(*parts, "")


def number_texts(numbers):
    return arrow.array(numbers).cast(arrow.string())


def directories(chance, count):
    """Returns the paths of directories: a top, a user or project, and up to three more."""
    tops = texts(chance.choice(4, count, p=[0.55, 0.25, 0.12, 0.08]).astype("int32"), TOPS)
    users = number_texts(numpy.minimum(chance.zipf(1.4, count), 400))
    path = joined("/", tops, "/u", users, "/p", number_texts(chance.integers(0, 30, count)))
    for letter in "dx":
        deeper = joined(path, f"/{letter}", number_texts(chance.integers(0, 5000, count)))
        path = compute.if_else(arrow.array(chance.random(count) < 0.6), deeper, path)
    return path, numpy.minimum(chance.zipf(1.4, count), 400)


def chunk(seed, first, count, day):
    """Returns the rows of some inodes, without those that a day has removed."""
    chance = numpy.random.default_rng([*seed, first])
    numbers = numpy.arange(first, first + count, dtype="uint64")
    folders = count // FILES_OF_DIRECTORY + 1
    folder = (numpy.arange(count) // FILES_OF_DIRECTORY).astype("int64")
    is_folder = numpy.arange(count) % FILES_OF_DIRECTORY == 0
    paths, owners = directories(chance, folders)
    size = numpy.exp(chance.normal(9.0, 2.6, count))
    size = numpy.where(chance.random(count) < 0.002, size * 4000, size)
    size = numpy.minimum(size, 2.0**42).astype("uint64")
    age = chance.exponential(250.0, count)
    present = chance.random(count)
    # The inode number with 64 inodes in a chunk, and gaps between chunks.
    ino = 128 + numbers + (numbers // 64) * 64
    generation = (numbers * 2654435761 % 2**32).astype("uint32")
    now = (day["date"] - EPOCH).days * 86400 * 10**9
    start = (day["start"] - EPOCH).days * 86400 * 10**9
    mtime = start - (age * 86400e9).astype("int64")
    ctime, change_count = mtime.copy(), chance.integers(1, 30, count).astype("uint64")
    keep = present >= 0
    for number in range(day["number"] + 1):
        today = numpy.random.default_rng([*seed, first, number])
        draw = today.random(count)
        at = start + (number * 86400 + 3600) * 10**9
        if number > 0:
            keep &= draw >= 0.005
            changed = (draw >= 0.005) & (draw < 0.015)
            size = numpy.where(changed, size + size // 8 + 100, size)
            mtime, ctime = numpy.where(changed, at, mtime), numpy.where(changed, at, ctime)
            ctime = numpy.where((draw >= 0.015) & (draw < 0.018), at, ctime)
            change_count = change_count + changed
        # Some inodes come into being on each day.
        born = (present >= 0.99) & (present < 0.992)
        keep &= ~born | (number > 0) | (day["number"] > 0)
    ages = numpy.minimum(now - mtime, (chance.random(count) * (now - mtime)).astype("int64"))
    atime = now - ages
    stems = texts(chance.integers(0, 5, count).astype("int32"), ["/data-", "/run_", "/img", "/a", "/report."])
    endings = texts(chance.integers(0, len(ENDINGS), count).astype("int32"), ENDINGS)
    own = paths.take(arrow.array(folder))
    path = joined(own, stems, number_texts(numbers.astype("int64")), endings)
    path = compute.if_else(arrow.array(is_folder), own, path)
    size = numpy.where(is_folder, 4096, size).astype("uint64")
    uid = numpy.where(chance.random(count) < 0.97, owners[folder] + 1000, 0).astype("uint32")
    one = numpy.ones(count, "uint32")
    offsets = arrow.array(numpy.arange(count + 1, dtype="int32"))
    parent = ino[(folder * FILES_OF_DIRECTORY).astype("int64")]
    columns = {
        "volume_label": texts(numpy.zeros(count, "int32"), [day["label"]]),
        "ino": ino,
        "generation": generation,
        "ag": (ino >> 24).astype("uint32"),
        "type": texts(is_folder.astype("int32"), ["file", "directory"]),
        "mode": numpy.where(is_folder, 0o40755, 0o100644).astype("uint32"),
        "nlink": one + is_folder,
        "uid": uid, "gid": uid, "project_id": one * 0,
        "size": size,
        "blocks": numpy.where(size < 100, 0, (size + 4095) // 4096 * 8).astype("uint64"),
        "extents": numpy.minimum(1 + size // 2**27, 4000).astype("uint64"),
        "attr_extents": one * 0, "xflags": one * 0, "rdev": (one * 0).astype("uint64"),
        "change_count": change_count, "lsn": (numbers // 1000) << 32 | 8,
        "flags": one * 0, "flags2": (one * 0 + 24).astype("uint64"),
        "paths": arrow.ListArray.from_arrays(offsets, path),
        "paths_bytes": arrow.ListArray.from_arrays(arrow.array(numpy.zeros(count + 1, "int32")), arrow.array([], "binary")),
        "orphan": arrow.array(numpy.zeros(count, bool)),
        "parents": arrow.ListArray.from_arrays(offsets, arrow.array(parent)),
        "parent_generations": arrow.ListArray.from_arrays(offsets, arrow.array(generation)),
    }  # fmt: skip
    for name, value in {"atime": atime, "mtime": mtime, "ctime": ctime, "btime": mtime}.items():
        columns[name] = arrow.array(value, "int64").cast(TIME)
    table = arrow.table({field.name: columns[field.name] for field in schema()}, schema=schema())
    return table if keep.all() else table.filter(arrow.array(keep))


def write_inodes(path, seed, count, day):
    words = ["volume_label", "type", "parents.list.item", "parent_generations.list.item"]
    options = {
        "version": "2.6", "data_page_version": "2.0", "use_dictionary": words,
        "write_statistics": [name for name in DELTA if name != "paths"],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in DELTA},
        "compression": {"paths.list.item": "LZ4"},
        "use_compliant_nested_type": False,
    }  # fmt: skip
    rows = 0
    with parquet.ParquetWriter(path, schema(), **options) as writer:
        for first in range(0, count, CHUNK):
            table = chunk(seed, first, min(CHUNK, count - first), day)
            writer.write_table(table, row_group_size=CHUNK)
            rows += table.num_rows
    return rows


def write_scan(path, day, rows):
    began = arrow.array([(day["date"] - EPOCH).days * 86400 * 10**9], "int64").cast(
        arrow.timestamp("ns", tz="+00:00")
    )
    number = lambda value, kind="uint64": arrow.array([value], kind)
    text = lambda value: arrow.array([value], "string")
    columns = {
        "volume_label": text(day["label"]), "image": text(f"/dev/{day['label']}"),
        "host": text("generated"), "began": began, "ended": began, "inodes": number(rows),
        "errors": number(0), "missing_inodes": number(0), "log": text("current"),
        "schema_version": number(2, "uint32"), "program_version": text("0.1.0"),
    }  # fmt: skip
    parquet.write_table(arrow.table(columns), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--volumes", type=int, default=10)
    parser.add_argument("--inodes", type=int, default=10_000_000, help="of each volume")
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--start", type=datetime.date.fromisoformat, default="2026-11-30")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if isinstance(options.start, str):
        options.start = datetime.date.fromisoformat(options.start)
    total = 0
    for volume in range(options.volumes):
        name = uuid.UUID(int=(options.seed << 64) + volume + (1 << 120))
        for number in range(options.days):
            date = options.start + datetime.timedelta(days=number)
            day = {"number": number, "date": date, "start": options.start, "label": f"vol{volume:03}"}
            rows = None
            for table in ("inodes", "scans"):
                place = options.directory / table / f"scan_date={date}" / f"volume_uuid={name}"
                place.mkdir(parents=True, exist_ok=True)
                part = place / "part-00000.parquet"
                if table == "inodes":
                    rows = write_inodes(part, [options.seed, volume], options.inodes, day)
                else:
                    write_scan(part, day, rows)
            total += rows
    print(json.dumps({"rows": total}))


if __name__ == "__main__":
    main()
