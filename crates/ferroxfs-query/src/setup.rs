//! Statements that give other engines the tables of a dataset, so that they run the SQL of reports.
//!
//! Each engine reads the same files. The statements name the files in the manner of the engine, and
//! add the columns `path`, `modified` and `accessed`. They also cover what an engine lacks: a
//! function, a setting of time zones.

use std::path::Path;

use clap::ValueEnum;

use crate::dataset::Dataset;

/// An engine for SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// DuckDB
    Duckdb,
    /// ClickHouse, clickhouse-local and chdb
    Clickhouse,
    /// Spark SQL
    Spark,
}

impl Engine {
    /// Returns the statements for the tables of a dataset.
    pub(crate) fn statements(self, set: &Dataset) -> String {
        let has_owner = set.has_column("owner");
        let inodes = quoted(&set.table("inodes"));
        let scans = quoted(&set.table("scans"));
        match self {
            Self::Duckdb => duckdb(&inodes, &scans, has_owner),
            Self::Clickhouse => clickhouse(&inodes, &scans, has_owner),
            Self::Spark => spark(&inodes, &scans, has_owner),
        }
    }
}

fn duckdb(inodes: &str, scans: &str, has_owner: bool) -> String {
    let owner = if has_owner { "" } else { ",\n  CAST(NULL AS VARCHAR) AS owner" };
    let union = if has_owner { ", union_by_name = true" } else { "" };
    format!(
        "SET TimeZone = 'UTC';\n\
         CREATE OR REPLACE VIEW inodes AS SELECT *,\n  \
           paths[1] AS path, CAST(mtime AS DATE) AS modified, CAST(atime AS DATE) AS accessed{owner}\n\
         FROM read_parquet('{inodes}/*/*/*.parquet', hive_partitioning = true{union});\n\
         CREATE OR REPLACE VIEW scans AS SELECT *\n\
         FROM read_parquet('{scans}/*/*/*.parquet', hive_partitioning = true);\n"
    )
}

fn clickhouse(inodes: &str, scans: &str, has_owner: bool) -> String {
    let owner = if has_owner { "" } else { ",\n  CAST(NULL AS Nullable(String)) AS owner" };
    let partitions = "REPLACE (toString(volume_uuid) AS volume_uuid, \
                      toDate32(scan_date) AS scan_date)";
    format!(
        "SET join_use_nulls = 1;\n\
         CREATE FUNCTION IF NOT EXISTS split_part AS (text, separator, n) ->\n  \
           arrayElement(splitByString(separator, text), n);\n\
         CREATE OR REPLACE VIEW inodes AS SELECT * {partitions},\n  \
           nullIf(paths[1], '') AS path, toDate32(mtime) AS modified, toDate32(atime) AS accessed\
           {owner}\n\
         FROM file('{inodes}/*/*/*.parquet', Parquet);\n\
         CREATE OR REPLACE VIEW scans AS SELECT * {partitions}\n\
         FROM file('{scans}/*/*/*.parquet', Parquet);\n"
    )
}

fn spark(inodes: &str, scans: &str, has_owner: bool) -> String {
    let owner = if has_owner { "" } else { ",\n  CAST(NULL AS STRING) AS owner" };
    let merge = if has_owner { ", mergeSchema 'true'" } else { "" };
    let date = |time: &str| format!("CAST(timestamp_micros({time} div 1000) AS DATE)");
    let (modified, accessed) = (date("mtime"), date("atime"));
    format!(
        "SET spark.sql.session.timeZone = UTC;\n\
         SET spark.sql.legacy.parquet.nanosAsLong = true;\n\
         CREATE OR REPLACE TEMPORARY VIEW inode_files USING parquet\n  \
           OPTIONS (path '{inodes}'{merge});\n\
         CREATE OR REPLACE TEMPORARY VIEW inodes AS SELECT *,\n  \
           paths[0] AS path,\n  {modified} AS modified,\n  {accessed} AS accessed{owner}\n\
         FROM inode_files;\n\
         CREATE OR REPLACE TEMPORARY VIEW scans USING parquet OPTIONS (path '{scans}');\n"
    )
}

/// Returns the path for a literal of SQL, without the quotes.
fn quoted(path: &Path) -> String {
    path.to_string_lossy().replace('\'', "''")
}
