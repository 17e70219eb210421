"""Runs SQL of reports in one engine: `engine.py ENGINE FOLDER NAME...`.

FOLDER has `ENGINE.setup.sql` and `NAME.sql`, as `ferroxfs-query --setup` and `--print-sql` print
them. The output is one line of JSON for each name: its rows and the seconds that they took.
"""

import datetime
import decimal
import json
import os
import pathlib
import sys
import time

MEMORY = int(os.environ.get("MEMORY_BYTES", 4 << 30))
THREADS = int(os.environ.get("THREADS", os.cpu_count() or 1))


def statements(text):
    """Returns the statements of a file of setup. None has a semicolon in it."""
    return [it.strip() for it in text.split(";") if it.strip()]


def plain(value):
    """Returns the value as ferroxfs-query writes it in JSON."""
    if isinstance(value, decimal.Decimal):
        assert value == int(value), value
        return int(value)
    if isinstance(value, datetime.datetime):
        raise TypeError("reports have dates, no times")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def duckdb(setup, scratch):
    import duckdb as module

    connection = module.connect()
    connection.execute(f"SET memory_limit = '{MEMORY // (1 << 20)}MiB'")
    connection.execute(f"SET temp_directory = '{scratch}'")
    connection.execute(f"SET threads = {THREADS}")
    for statement in setup:
        connection.execute(statement)
    return lambda sql: connection.execute(sql).fetchall()


def clickhouse(setup, scratch):
    from chdb import session

    client = session.Session(os.path.join(scratch, "clickhouse"))
    settings = {
        "max_memory_usage": MEMORY,
        "max_bytes_before_external_group_by": MEMORY // 2,
        "max_bytes_before_external_sort": MEMORY // 2,
        "max_threads": THREADS,
    }
    for name, value in settings.items():
        client.query(f"SET {name} = {value}")
    for statement in setup:
        client.query(statement)

    def run(sql):
        text = str(client.query(sql, "JSONCompact")).strip()
        if not text:
            return []
        answer = json.loads(text)
        kinds = [column["type"] for column in answer["meta"]]

        def value(cell, kind):
            # ClickHouse quotes integers of 64 bits in JSON.
            is_number = any(word in kind for word in ("Int", "Decimal"))
            return int(cell) if is_number and cell is not None else cell

        return [[value(*it) for it in zip(row, kinds)] for row in answer["data"]]

    return run


def spark(setup, scratch):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{THREADS}]")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.memory", f"{MEMORY // (1 << 20)}m")
    builder = builder.config("spark.local.dir", scratch)
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(scratch, "warehouse"))
    builder = builder.config("spark.log.level", "ERROR")
    client = builder.config("spark.sql.shuffle.partitions", str(4 * THREADS)).getOrCreate()
    for statement in setup:
        client.sql(statement)
    return lambda sql: [list(row) for row in client.sql(sql).collect()]


def datafusion(setup, scratch):
    """The engine of ferroxfs-query with its settings, but from the wheel: it is compiled with all
    optimizations, which takes the chores too long. `setup` is the folder of the dataset."""
    import datafusion as module
    import pyarrow

    config = module.SessionConfig({
        "datafusion.execution.parquet.pushdown_filters": "true",
        "datafusion.execution.parquet.reorder_filters": "true",
    }).with_target_partitions(THREADS)  # fmt: skip
    runtime = module.RuntimeEnvBuilder().with_fair_spill_pool(MEMORY)
    runtime = runtime.with_disk_manager_specified(scratch)
    context = module.SessionContext(config, runtime)
    partitions = [("scan_date", pyarrow.date32()), ("volume_uuid", pyarrow.string())]
    for name, table in [("inode_files", "inodes"), ("scans", "scans")]:
        folder = f"{setup[0]}/{table}/"
        context.register_listing_table(name, folder, partitions, file_extension=".parquet")
    known = {field.name for field in context.table("inode_files").schema()}
    absent = [name for name in ("owner", "hash") if name not in known]
    nulls = "".join(f", CAST(NULL AS VARCHAR) AS {name}" for name in absent)
    context.sql(
        "CREATE VIEW inodes AS SELECT *, paths[1] AS path, CAST(mtime AS DATE) AS modified, "
        f"CAST(atime AS DATE) AS accessed{nulls} FROM inode_files"
    )

    def run(sql):
        table = context.sql(sql).to_arrow_table()
        return [list(row.values()) for row in table.to_pylist()]

    return run


ENGINES = {"datafusion": datafusion, "duckdb": duckdb, "clickhouse": clickhouse, "spark": spark}


def main(engine, folder, *names):
    folder = pathlib.Path(folder)
    scratch = folder / f"{engine}.scratch"
    scratch.mkdir(exist_ok=True)
    setup = statements((folder / f"{engine}.setup.sql").read_text())
    run = ENGINES[engine](setup, str(scratch))
    for name in names:
        began = time.monotonic()
        rows = run((folder / f"{name}.sql").read_text())
        seconds = time.monotonic() - began
        rows = [[plain(value) for value in row] for row in rows]
        print(json.dumps({"name": name, "seconds": seconds, "rows": rows}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
