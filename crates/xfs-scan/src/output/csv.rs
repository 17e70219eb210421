//! Comma-separated values: one header line, then one line per inode, each with every column.
//!
//! Readers of data frames need the same columns in each row, and text in UTF-8. So a list is a JSON
//! array in its cell. A name that is not UTF-8 is in base64, in a column whose name ends in
//! `_bytes`. Text is quoted if it contains a comma, a quote or a line break. Findings and accounts
//! are facts outside the rows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::facts::Fact;
use super::json::{self, push_moment, push_number};
use super::{OutputPiece, RowEncoder, Rows};
use crate::accounting::Account;
use crate::row::{ByteList, RowView, VolumeLabel};
use crate::{Field, Fields, Finding, ScanError};

/// Returns the names of the columns for a field that takes more than one column. Any other field
/// takes one column with the field's own name, and the list is empty.
const fn columns(field: Field) -> &'static [&'static str] {
    match field {
        Field::Symlink => &["symlink", "symlink_bytes"],
        Field::Xattrs => &["xattrs", "xattrs_bytes"],
        Field::Paths => &["paths", "more_paths", "paths_bytes", "orphan"],
        _ => &[],
    }
}

/// Returns the first line, which has the names of the columns.
pub(super) fn head(fields: Fields) -> Vec<u8> {
    let mut names = Vec::new();
    for field in fields.iter() {
        match columns(field) {
            [] => names.push(field.name()),
            several => names.extend_from_slice(several),
        }
    }
    format!("{}\n", names.join(",")).into_bytes()
}

/// Encodes the rows of one volume.
pub(super) struct CsvEncoder {
    fields: Fields,
    out: Vec<u8>,
    facts: Vec<Fact>,
    uuid: String,
    /// The cell that contains the label of the volume.
    label: Vec<u8>,
}

impl CsvEncoder {
    pub(super) fn new(fields: Fields, volume: &VolumeLabel, out: Vec<u8>) -> Self {
        let mut label = Vec::new();
        push_text(&mut label, volume.label_text().as_bytes());
        Self { fields, out, facts: Vec::new(), uuid: volume.uuid.to_string(), label }
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Appends items as a JSON array. Appends nothing if there are no items.
fn push_array<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    push_item: impl Fn(&mut Vec<u8>, T),
) {
    let mut array = Vec::new();
    for item in items {
        array.push(if array.is_empty() { b'[' } else { b',' });
        push_item(&mut array, item);
    }
    if !array.is_empty() {
        array.push(b']');
    }
    push_text(out, &array);
}

fn texts(list: &ByteList) -> impl Iterator<Item = &str> {
    list.iter().filter_map(|item| std::str::from_utf8(item).ok())
}

/// Appends a cell with the strings of `list` that are not UTF-8, in base64.
fn push_others(out: &mut Vec<u8>, list: &ByteList) {
    let others = list.iter().filter(|item| std::str::from_utf8(item).is_err());
    push_array(out, others, json::push_base64);
}

fn push_paths(out: &mut Vec<u8>, view: &RowView<'_>) {
    let mut paths = texts(view.paths);
    push_text(out, paths.next().unwrap_or_default().as_bytes());
    out.push(b',');
    push_array(out, paths, json::push_string);
    out.push(b',');
    push_others(out, view.paths);
    out.extend_from_slice(if view.is_orphan { b",true" } else { b",false" });
}

fn push_symlink(out: &mut Vec<u8>, target: &[u8]) {
    match std::str::from_utf8(target) {
        Ok(text) => {
            push_text(out, text.as_bytes());
            out.push(b',');
        }
        Err(_) => {
            out.push(b',');
            out.extend_from_slice(STANDARD.encode(target).as_bytes());
        }
    }
}

fn push_cell(out: &mut Vec<u8>, field: Field, view: &RowView<'_>) {
    let row = view.row;
    match field {
        // These come from the volume.
        Field::VolumeUuid | Field::VolumeLabel => {}
        Field::Ino => push_number(out, row.ino),
        Field::Generation => push_number(out, row.generation),
        Field::Ag => push_number(out, view.ag),
        Field::Type => out.extend_from_slice(row.type_name().as_bytes()),
        Field::Mode => push_number(out, row.mode),
        Field::Nlink => push_number(out, row.nlink),
        Field::Uid => push_number(out, row.uid),
        Field::Gid => push_number(out, row.gid),
        Field::ProjectId => push_number(out, row.project_id),
        Field::Size => push_number(out, row.size),
        Field::Blocks => push_number(out, view.blocks()),
        Field::RealtimeBlocks => push_number(out, view.realtime_blocks()),
        Field::Atime => push_moment(out, row.atime),
        Field::Mtime => push_moment(out, row.mtime),
        Field::Ctime => push_moment(out, row.ctime),
        Field::Btime => push_moment(out, row.btime),
        Field::Extents => push_number(out, row.extents),
        Field::AttrExtents => push_number(out, row.attr_extents),
        Field::Xflags => push_number(out, row.xflags),
        Field::Rdev => push_number(out, row.rdev()),
        Field::ChangeCount => push_number(out, row.change_count),
        Field::Lsn => push_number(out, row.lsn),
        Field::Flags => push_number(out, row.flags),
        Field::Flags2 => push_number(out, row.flags2),
        Field::Owner => push_text(out, view.owner().unwrap_or_default().as_bytes()),
        Field::Group => push_text(out, view.group().unwrap_or_default().as_bytes()),
        Field::Hash => push_text(out, view.hash.unwrap_or_default().as_bytes()),
        Field::Symlink => push_symlink(out, view.symlink.unwrap_or_default()),
        Field::Xattrs => {
            push_array(out, texts(view.xattrs), json::push_string);
            out.push(b',');
            push_others(out, view.xattrs);
        }
        Field::Paths => push_paths(out, view),
        Field::Parents => push_array(out, view.parents_in_columns(), |out, parent| {
            push_number(out, parent.ino);
        }),
        Field::ParentGenerations => push_array(out, view.parents_in_columns(), |out, parent| {
            push_number(out, parent.generation);
        }),
    }
}

impl RowEncoder for CsvEncoder {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        let start = self.out.len();
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            match field {
                Field::VolumeUuid => self.out.extend_from_slice(self.uuid.as_bytes()),
                Field::VolumeLabel => self.out.extend_from_slice(&self.label),
                other => push_cell(&mut self.out, other, view),
            }
        }
        if self.out.len() == start {
            // Readers skip an empty line.
            self.out.extend_from_slice(b"\"\"");
        }
        self.out.push(b'\n');
        Ok(())
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        self.facts.push(Fact::Finding(finding.clone()));
        Ok(())
    }

    fn account(&mut self, account: &Account) -> Result<(), ScanError> {
        self.facts.push(Fact::Account(account.clone()));
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.out.len()
    }

    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError> {
        Ok(OutputPiece { rows: Some(Rows::Lines(self.out)), facts: self.facts })
    }
}
