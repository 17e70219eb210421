//! The columns of rows in the form of Arrow: names and types.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, TimeUnit};

use crate::{Field, Fields};

/// A column of the rows of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrowColumn {
    Inode(Field),
    PathsBytes,
    XattrsBytes,
    SymlinkBytes,
    Orphan,
}

/// Returns the columns for the selected fields.
pub(crate) fn columns(fields: Fields) -> Vec<ArrowColumn> {
    let mut columns = Vec::new();
    for field in fields.iter() {
        columns.push(ArrowColumn::Inode(field));
        match field {
            Field::Paths => columns.extend([ArrowColumn::PathsBytes, ArrowColumn::Orphan]),
            Field::Xattrs => columns.push(ArrowColumn::XattrsBytes),
            Field::Symlink => columns.push(ArrowColumn::SymlinkBytes),
            _ => {}
        }
    }
    columns
}

impl ArrowColumn {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inode(field) => field.name(),
            Self::PathsBytes => "paths_bytes",
            Self::XattrsBytes => "xattrs_bytes",
            Self::SymlinkBytes => "symlink_bytes",
            Self::Orphan => "orphan",
        }
    }

    pub(crate) fn data_type(self) -> DataType {
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
                | Field::Hash
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
    pub(crate) fn is_nullable(self) -> bool {
        match self {
            Self::Inode(Field::Atime | Field::Mtime | Field::Ctime | Field::Btime)
            | Self::Inode(Field::Symlink | Field::Owner | Field::Group | Field::Hash)
            | Self::PathsBytes
            | Self::XattrsBytes
            | Self::SymlinkBytes => true,
            Self::Inode(_) | Self::Orphan => false,
        }
    }
}
