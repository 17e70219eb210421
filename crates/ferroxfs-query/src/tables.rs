//! The columns of the two tables, as docs/scan-schema.md lists them.
//!
//! The schema is fixed, so that registering a table opens no file. A column that a file does not
//! have is null. That is how a scan without `--passwd` and one with it are one table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Returns the columns of `inodes` in the files. The names of directories have two more.
pub(crate) fn inodes() -> SchemaRef {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
    schema([
        ("volume_label", DataType::Utf8View),
        ("ino", DataType::UInt64),
        ("generation", DataType::UInt32),
        ("ag", DataType::UInt32),
        ("type", DataType::Utf8View),
        ("mode", DataType::UInt32),
        ("nlink", DataType::UInt32),
        ("uid", DataType::UInt32),
        ("gid", DataType::UInt32),
        ("project_id", DataType::UInt32),
        ("size", DataType::UInt64),
        ("blocks", DataType::UInt64),
        ("rt_blocks", DataType::UInt64),
        ("atime", time()),
        ("mtime", time()),
        ("ctime", time()),
        ("btime", time()),
        ("extents", DataType::UInt64),
        ("attr_extents", DataType::UInt32),
        ("xflags", DataType::UInt32),
        ("rdev", DataType::UInt64),
        ("change_count", DataType::UInt64),
        ("lsn", DataType::UInt64),
        ("flags", DataType::UInt32),
        ("flags2", DataType::UInt64),
        ("hash", DataType::Utf8View),
        ("owner", DataType::Utf8View),
        ("group", DataType::Utf8View),
        ("symlink", DataType::Utf8View),
        ("symlink_bytes", DataType::BinaryView),
        ("xattrs", list(DataType::Utf8)),
        ("xattrs_bytes", list(DataType::Binary)),
        ("paths", list(DataType::Utf8)),
        ("paths_bytes", list(DataType::Binary)),
        ("orphan", DataType::Boolean),
        ("parents", list(DataType::UInt64)),
        ("parent_generations", list(DataType::UInt32)),
    ])
}

/// Returns the columns of `scans` in the files.
pub(crate) fn scans() -> SchemaRef {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    schema([
        ("volume_label", DataType::Utf8View),
        ("image", DataType::Utf8View),
        ("host", DataType::Utf8View),
        ("began", time()),
        ("ended", time()),
        ("inodes", DataType::UInt64),
        ("errors", DataType::UInt64),
        ("missing_inodes", DataType::UInt64),
        ("log", DataType::Utf8View),
        ("schema_version", DataType::UInt32),
        ("program_version", DataType::Utf8View),
    ])
}

/// Returns the columns that the names of directories have.
pub(crate) fn partitions() -> Vec<(String, DataType)> {
    vec![("scan_date".to_owned(), DataType::Date32), ("volume_uuid".to_owned(), DataType::Utf8)]
}

fn schema<const N: usize>(columns: [(&str, DataType); N]) -> SchemaRef {
    Arc::new(Schema::new(columns.map(|(name, kind)| Field::new(name, kind, true)).to_vec()))
}
