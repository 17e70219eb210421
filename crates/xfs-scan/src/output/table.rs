//! The table format: aligned columns for a person at a terminal.
//!
//! Names are escaped, because the contents of an image must not control a terminal.

use std::io::Write as _;

use super::{OutputPiece, RowEncoder, Rows};
use crate::accounting::Account;
use crate::row::{ByteList, Moment, RowView};
use crate::{Field, Fields, Finding, ScanError};

/// The width of a column, and whether its values are right-aligned.
struct TableColumn {
    field: Field,
    width: usize,
    is_number: bool,
}

/// Returns the columns that precede the names; names come last because of their width. Columns
/// about the volume are left out, because the user knows which volume was scanned.
fn columns(fields: Fields) -> impl Iterator<Item = TableColumn> {
    let shown = fields.without(Field::VolumeUuid).without(Field::VolumeLabel);
    let shown = shown.without(Field::Paths).without(Field::Symlink).without(Field::Xattrs);
    shown.iter().map(|field| {
        let (width, is_number) = match field {
            Field::Ag => (4, true),
            Field::Type => (12, false),
            Field::Mode => (7, true),
            Field::Nlink | Field::Extents | Field::AttrExtents => (7, true),
            Field::Uid | Field::Gid | Field::ProjectId | Field::Xflags | Field::Rdev => (8, true),
            Field::Flags | Field::Flags2 => (8, true),
            Field::Owner | Field::Group => (12, false),
            Field::Lsn => (16, false),
            Field::Parents | Field::ParentGenerations => (12, false),
            Field::Atime | Field::Mtime | Field::Ctime | Field::Btime => (20, false),
            _ => (12, true),
        };
        TableColumn { field, width: width.max(field.name().len()), is_number }
    })
}

/// Returns the line of column names.
pub(super) fn head(fields: Fields) -> Vec<u8> {
    let mut out = Vec::new();
    for column in columns(fields) {
        push_cell(&mut out, &column, column.field.name());
    }
    for field in [Field::Symlink, Field::Xattrs, Field::Paths] {
        if fields.contains(field) {
            out.extend_from_slice(field.name().as_bytes());
            out.push(b' ');
        }
    }
    end_line(&mut out);
    out
}

fn push_cell(out: &mut Vec<u8>, column: &TableColumn, text: &str) {
    let width = column.width;
    // Writing to memory cannot fail.
    let _ = if column.is_number {
        write!(out, "{text:>width$} ")
    } else {
        write!(out, "{text:<width$} ")
    };
}

fn end_line(out: &mut Vec<u8>) {
    while out.last() == Some(&b' ') {
        out.pop();
    }
    out.push(b'\n');
}

pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let is_plain = !character.is_control() && character != '\\';
            let _ = if is_plain {
                write!(out, "{character}")
            } else {
                write!(out, "{}", character.escape_default())
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

fn push_list(out: &mut Vec<u8>, list: &ByteList) {
    for item in list.iter() {
        push_escaped(out, item);
        out.push(b' ');
    }
}

/// Formats a time such as `2026-11-21T23:15:49Z`. The date is computed in years that begin on 1
/// March, so that a leap day is the last day of its year.
fn moment_text(moment: Moment) -> String {
    let seconds = moment.seconds();
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn escaped(name: Option<&str>) -> String {
    let mut out = Vec::new();
    push_escaped(&mut out, name.unwrap_or_default().as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

fn joined(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

fn cell_text(field: Field, view: &RowView<'_>) -> String {
    let row = view.row;
    match field {
        Field::Ino => row.ino.to_string(),
        Field::Generation => row.generation.to_string(),
        Field::Ag => view.ag.to_string(),
        Field::Type => row.type_name().to_owned(),
        Field::Mode => format!("{:06o}", row.mode),
        Field::Nlink => row.nlink.to_string(),
        Field::Uid => row.uid.to_string(),
        Field::Gid => row.gid.to_string(),
        Field::ProjectId => row.project_id.to_string(),
        Field::Size => row.size.to_string(),
        Field::Blocks => view.blocks().to_string(),
        Field::RealtimeBlocks => view.realtime_blocks().to_string(),
        Field::Atime => moment_text(row.atime),
        Field::Mtime => moment_text(row.mtime),
        Field::Ctime => moment_text(row.ctime),
        Field::Btime => moment_text(row.btime),
        Field::Extents => row.extents.to_string(),
        Field::AttrExtents => row.attr_extents.to_string(),
        Field::Xflags => format!("{:#x}", row.xflags),
        Field::Rdev => row.rdev().to_string(),
        Field::ChangeCount => row.change_count.to_string(),
        Field::Lsn => format!("{}/{}", row.lsn >> 32, row.lsn & 0xffff_ffff),
        Field::Flags => format!("{:#x}", row.flags),
        Field::Flags2 => format!("{:#x}", row.flags2),
        Field::Owner => escaped(view.owner()),
        Field::Group => escaped(view.group()),
        Field::Hash => escaped(view.hash),
        Field::Parents => joined(view.parents_in_columns().map(|parent| parent.ino)),
        Field::ParentGenerations => {
            joined(view.parents_in_columns().map(|parent| u64::from(parent.generation)))
        }
        Field::VolumeUuid | Field::VolumeLabel | Field::Symlink | Field::Xattrs | Field::Paths => {
            String::new()
        }
    }
}

/// Encodes the rows of one volume.
pub(super) struct TableEncoder {
    fields: Fields,
    columns: Vec<TableColumn>,
    out: Vec<u8>,
}

impl TableEncoder {
    pub(super) fn new(fields: Fields, out: Vec<u8>) -> Self {
        Self { fields, columns: columns(fields).collect(), out }
    }
}

impl RowEncoder for TableEncoder {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        for column in &self.columns {
            push_cell(&mut self.out, column, &cell_text(column.field, view));
        }
        if self.fields.contains(Field::Symlink)
            && let Some(target) = view.symlink
        {
            self.out.extend_from_slice(b"-> ");
            push_escaped(&mut self.out, target);
            self.out.push(b' ');
        }
        push_list(&mut self.out, view.xattrs);
        if self.fields.contains(Field::Paths) {
            push_list(&mut self.out, view.paths);
        }
        if view.is_orphan {
            self.out.extend_from_slice(b"(orphan)");
        }
        end_line(&mut self.out);
        Ok(())
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        let _ = write!(self.out, "error: {}: ", finding.code.name());
        if let Some(ino) = finding.ino {
            let _ = write!(self.out, "inode {ino}");
            if finding.inode_count > 1 {
                let _ = write!(self.out, " and the {} after it", finding.inode_count - 1);
            }
            self.out.extend_from_slice(b": ");
        }
        push_escaped(&mut self.out, finding.message.as_bytes());
        end_line(&mut self.out);
        Ok(())
    }

    fn account(&mut self, account: &Account) -> Result<(), ScanError> {
        let Account { key, owner, inodes, size, blocks, shared_blocks, .. } = account;
        let by = account.by.name();
        let _ = write!(
            self.out,
            "{by:<9} {key:>12} inodes {inodes:>10} size {size:>16} blocks {blocks:>14} \
             shared {shared_blocks:>12} "
        );
        push_list(&mut self.out, &account.paths);
        push_escaped(&mut self.out, owner.as_deref().unwrap_or("").as_bytes());
        end_line(&mut self.out);
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.out.len()
    }

    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError> {
        Ok(OutputPiece { rows: Some(Rows::Lines(self.out)), facts: Vec::new() })
    }
}
