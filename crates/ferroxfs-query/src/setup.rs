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

/// Columns that the reports use and that only some scans write.
const OPTIONAL: [&str; 2] = ["owner", "hash"];

/// The two tables, for the statements of one engine.
struct Tables {
    /// The directories, for literals of SQL.
    inodes: String,
    scans: String,
    /// The optional columns that no file has. The view of the inodes adds them.
    absent: Vec<&'static str>,
}

impl Tables {
    /// Returns columns of nulls for what no file has.
    fn nulls(&self, kind: &str) -> String {
        let null = |name: &&str| format!(",\n  CAST(NULL AS {kind}) AS {name}");
        self.absent.iter().map(null).collect()
    }

    /// Returns whether files may differ in their columns.
    fn is_mixed(&self) -> bool {
        self.absent.len() < OPTIONAL.len()
    }
}

impl Engine {
    /// Returns the statements for the tables of a dataset.
    pub(crate) fn statements(self, set: &Dataset) -> String {
        let tables = Tables {
            inodes: quoted(&set.table("inodes")),
            scans: quoted(&set.table("scans")),
            absent: OPTIONAL.into_iter().filter(|name| !set.has_column(name)).collect(),
        };
        match self {
            Self::Duckdb => duckdb(&tables),
            Self::Clickhouse => clickhouse(&tables),
            Self::Spark => spark(&tables),
        }
    }
}

fn duckdb(tables: &Tables) -> String {
    let Tables { inodes, scans, .. } = tables;
    let nulls = tables.nulls("VARCHAR");
    let union = if tables.is_mixed() { ", union_by_name = true" } else { "" };
    format!(
        "SET TimeZone = 'UTC';\n\
         CREATE OR REPLACE VIEW inodes AS SELECT *,\n  \
           paths[1] AS path, CAST(mtime AS DATE) AS modified, CAST(atime AS DATE) AS accessed{nulls}\n\
         FROM read_parquet('{inodes}/*/*/*.parquet', hive_partitioning = true{union});\n\
         CREATE OR REPLACE VIEW scans AS SELECT *\n\
         FROM read_parquet('{scans}/*/*/*.parquet', hive_partitioning = true);\n"
    )
}

fn clickhouse(tables: &Tables) -> String {
    let Tables { inodes, scans, .. } = tables;
    let nulls = tables.nulls("Nullable(String)");
    let union = match tables.is_mixed() {
        true => "SET schema_inference_mode = 'union';\n",
        false => "",
    };
    let partitions = "REPLACE (toString(volume_uuid) AS volume_uuid, \
                      toDate32(scan_date) AS scan_date)";
    format!(
        "SET join_use_nulls = 1;\n{union}\
         CREATE FUNCTION IF NOT EXISTS split_part AS (text, separator, n) ->\n  \
           arrayElement(splitByString(separator, text), n);\n\
         CREATE OR REPLACE VIEW inodes AS SELECT * {partitions},\n  \
           nullIf(paths[1], '') AS path, toDate32(mtime) AS modified, toDate32(atime) AS accessed\
           {nulls}\n\
         FROM file('{inodes}/*/*/*.parquet', Parquet);\n\
         CREATE OR REPLACE VIEW scans AS SELECT * {partitions}\n\
         FROM file('{scans}/*/*/*.parquet', Parquet);\n"
    )
}

fn spark(tables: &Tables) -> String {
    let Tables { inodes, scans, .. } = tables;
    let nulls = tables.nulls("STRING");
    let merge = if tables.is_mixed() { ", mergeSchema 'true'" } else { "" };
    let date = |time: &str| format!("CAST(timestamp_micros({time} div 1000) AS DATE)");
    let (modified, accessed) = (date("mtime"), date("atime"));
    format!(
        "SET spark.sql.session.timeZone = UTC;\n\
         SET spark.sql.legacy.parquet.nanosAsLong = true;\n\
         CREATE OR REPLACE TEMPORARY VIEW inode_files USING parquet\n  \
           OPTIONS (path '{inodes}'{merge});\n\
         CREATE OR REPLACE TEMPORARY VIEW inodes AS SELECT *,\n  \
           paths[0] AS path,\n  {modified} AS modified,\n  {accessed} AS accessed{nulls}\n\
         FROM inode_files;\n\
         CREATE OR REPLACE TEMPORARY VIEW scans USING parquet OPTIONS (path '{scans}');\n"
    )
}

/// Returns the path for a literal of SQL, without the quotes.
fn quoted(path: &Path) -> String {
    path.to_string_lossy().replace('\'', "''")
}
