//! The columns of a Parquet file: names, types, encodings.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, TimeUnit};
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::output::{Header, SCHEMA_VERSION};
use crate::{Field, Fields};

/// A column of the Parquet file of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParquetColumn {
    Inode(Field),
    PathsBytes,
    XattrsBytes,
    SymlinkBytes,
    Orphan,
}

/// Returns the columns of the file for the selected fields.
pub(super) fn columns(fields: Fields) -> Vec<ParquetColumn> {
    let mut columns = Vec::new();
    for field in fields.iter() {
        columns.push(ParquetColumn::Inode(field));
        match field {
            Field::Paths => columns.extend([ParquetColumn::PathsBytes, ParquetColumn::Orphan]),
            Field::Xattrs => columns.push(ParquetColumn::XattrsBytes),
            Field::Symlink => columns.push(ParquetColumn::SymlinkBytes),
            _ => {}
        }
    }
    columns
}

impl ParquetColumn {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inode(field) => field.name(),
            Self::PathsBytes => "paths_bytes",
            Self::XattrsBytes => "xattrs_bytes",
            Self::SymlinkBytes => "symlink_bytes",
            Self::Orphan => "orphan",
        }
    }

    pub(super) fn data_type(self) -> DataType {
        let list = |item| DataType::List(Arc::new(ArrowField::new("item", item, true)));
        match self {
            Self::Inode(field) => match field {
                Field::Ino
                | Field::Size
                | Field::Blocks
                | Field::RealtimeBlocks
                | Field::Extents
                | Field::Rdev
                | Field::ChangeCount
                | Field::Lsn
                | Field::Flags2 => DataType::UInt64,
                Field::Atime | Field::Mtime | Field::Ctime | Field::Btime => {
                    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
                }
                Field::VolumeUuid
                | Field::VolumeLabel
                | Field::Type
                | Field::Owner
                | Field::Group
                | Field::Symlink => DataType::Utf8,
                Field::Paths | Field::Xattrs => list(DataType::Utf8),
                Field::Parents => list(DataType::UInt64),
                Field::ParentGenerations => list(DataType::UInt32),
                _ => DataType::UInt32,
            },
            Self::PathsBytes | Self::XattrsBytes => list(DataType::Binary),
            Self::SymlinkBytes => DataType::Binary,
            Self::Orphan => DataType::Boolean,
        }
    }

    /// Returns whether a row can be without a value in this column. That holds for times that Arrow
    /// cannot hold, for symlink targets, and for names that are not UTF-8.
    pub(super) fn is_nullable(self) -> bool {
        match self {
            Self::Inode(Field::Atime | Field::Mtime | Field::Ctime | Field::Btime)
            | Self::Inode(Field::Symlink | Field::Owner | Field::Group)
            | Self::PathsBytes
            | Self::XattrsBytes
            | Self::SymlinkBytes => true,
            Self::Inode(_) | Self::Orphan => false,
        }
    }
}

pub(super) fn properties(columns: &[ParquetColumn], header: Header) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("ferroxfs ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            KeyValue::new("ferroxfs.schema_version".to_owned(), SCHEMA_VERSION.to_string()),
            KeyValue::new("ferroxfs.scan_time".to_owned(), header.scan_time.to_string()),
        ]));
    for &column in columns {
        let path = ColumnPath::from(column.name());
        builder = match column.data_type() {
            // A directory has many entries, so its number and generation repeat.
            _ if matches!(
                column,
                ParquetColumn::Inode(Field::Parents | Field::ParentGenerations)
            ) =>
            {
                let parts = [column.name(), "list", "item"].map(str::to_owned).to_vec();
                let path = ColumnPath::new(parts);
                builder
                    .set_column_dictionary_enabled(path.clone(), true)
                    .set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            // Minimum and maximum of repeated words cost more than everything else, and are
            // useless.
            DataType::Utf8 => builder
                .set_column_dictionary_enabled(path.clone(), true)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            DataType::List(_) => {
                let parts = [column.name(), "list", "item"].map(str::to_owned).to_vec();
                let path = ColumnPath::new(parts);
                builder
                    .set_column_compression(path.clone(), Compression::LZ4_RAW)
                    .set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            DataType::Boolean | DataType::Binary => builder,
            // Random numbers do not compress.
            _ if column == ParquetColumn::Inode(Field::Generation) => builder,
            _ => builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    builder.build()
}
