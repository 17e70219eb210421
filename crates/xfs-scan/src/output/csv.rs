//! Comma-separated values: one header line, one line per row, every row with every column.
//!
//! Text stands as it is on disk, in quotes where it holds a comma, a quote or a line's end.

use super::json::{push_moment, push_number};
use super::{Header, Piece, RowEncoder, SCHEMA_VERSION};
use crate::accounting::Account;
use crate::row::{ByteList, RowView, VolumeLabel};
use crate::{Field, Fields, Finding, ScanError};

/// Columns after those of the inode: of findings, of accounting, and of the one `scan` row.
const OTHER_COLUMNS: &str = "orphan,code,structure,inode_count,disk_address,message,\
    account_by,account_key,account_inodes,shared_blocks,schema_version,scan_time";

/// The header line, and the row of kind `scan`.
pub(super) fn head(fields: Fields, header: Header) -> Vec<u8> {
    let mut names = vec!["row"];
    for field in fields.iter() {
        names.push(field.name());
        if field == Field::Paths {
            names.push("more_paths");
        }
    }
    let empty = ",".repeat(names.len() + 9);
    let Header { scan_time } = header;
    format!("{},{OTHER_COLUMNS}\nscan{empty},{SCHEMA_VERSION},{scan_time}\n", names.join(","))
        .into_bytes()
}

/// Encodes rows of one volume.
pub(super) struct CsvEncoder<'a> {
    fields: Fields,
    out: Vec<u8>,
    volume: &'a VolumeLabel,
    uuid: String,
}

impl<'a> CsvEncoder<'a> {
    pub(super) fn new(fields: Fields, volume: &'a VolumeLabel, out: Vec<u8>) -> Self {
        Self { fields, out, volume, uuid: volume.uuid.to_string() }
    }

    /// Begins a row and fills the columns of `fields` by `cell`, which appends one value.
    fn row(&mut self, kind: &str, mut cell: impl FnMut(&mut Vec<u8>, Field)) {
        self.out.extend_from_slice(kind.as_bytes());
        for field in self.fields.iter() {
            self.out.push(b',');
            match field {
                Field::VolumeUuid => self.out.extend_from_slice(self.uuid.as_bytes()),
                Field::VolumeLabel => push_text(&mut self.out, &self.volume.label),
                other => cell(&mut self.out, other),
            }
        }
    }

    fn numbers(&mut self, numbers: &[Option<u64>]) {
        for number in numbers {
            self.out.push(b',');
            if let Some(number) = number {
                push_number(&mut self.out, *number);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push(b',');
        push_text(&mut self.out, text.as_bytes());
    }

    fn end(&mut self, empty_columns: &str) {
        self.out.extend_from_slice(empty_columns.as_bytes());
        self.out.push(b'\n');
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

/// The strings after the first `skip`, each ended by a NUL, which no name holds.
fn push_list(out: &mut Vec<u8>, list: &ByteList, skip: usize) {
    if list.len() <= skip {
        return;
    }
    let mut joined = Vec::new();
    for item in list.iter().skip(skip) {
        joined.extend_from_slice(item);
        joined.push(0);
    }
    push_text(out, &joined);
}

fn push_paths(out: &mut Vec<u8>, paths: &ByteList) {
    push_text(out, paths.iter().next().unwrap_or_default());
    out.push(b',');
    push_list(out, paths, 1);
}

fn push_cell(out: &mut Vec<u8>, field: Field, view: &RowView<'_>) {
    let row = view.row;
    match field {
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
        Field::Atime => push_moment(out, row.atime),
        Field::Mtime => push_moment(out, row.mtime),
        Field::Ctime => push_moment(out, row.ctime),
        Field::Btime => push_moment(out, row.btime),
        Field::Extents => push_number(out, row.extents),
        Field::AttrExtents => push_number(out, row.attr_extents),
        Field::Xflags => push_number(out, row.xflags),
        Field::Rdev => push_number(out, row.rdev()),
        Field::Symlink => push_text(out, view.symlink.unwrap_or_default()),
        Field::Xattrs => push_list(out, view.xattrs, 0),
        Field::Paths => push_paths(out, view.paths),
    }
}

impl RowEncoder for CsvEncoder<'_> {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        self.row("inode", |out, field| push_cell(out, field, view));
        self.numbers(&[view.is_orphan.then_some(1)]);
        self.end(",,,,,,,,,,,");
        Ok(())
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        self.row("error", |out, field| match (field, finding.ino, finding.ag) {
            (Field::Ino, Some(ino), _) => push_number(out, ino),
            (Field::Ag, _, Some(ag)) => push_number(out, ag),
            (Field::Paths, ..) => out.push(b','),
            _ => {}
        });
        self.out.push(b',');
        self.text(finding.code.name());
        self.text(finding.structure.unwrap_or_default());
        self.numbers(&[Some(finding.inode_count.into()), finding.disk_address]);
        self.text(&finding.message);
        self.end(",,,,,,");
        Ok(())
    }

    fn account(&mut self, account: &Account) -> Result<(), ScanError> {
        self.row("account", |out, field| match field {
            Field::Size => push_number(out, account.size),
            Field::Blocks => push_number(out, account.blocks),
            Field::Paths => push_paths(out, &account.paths),
            _ => {}
        });
        self.out.extend_from_slice(b",,,,,");
        self.out.push(b',');
        self.text(account.by.name());
        self.numbers(&[Some(account.key), Some(account.inodes), Some(account.shared_blocks)]);
        self.end(",,");
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.out.len()
    }

    fn finish(self: Box<Self>) -> Result<Piece, ScanError> {
        Ok(Piece::Bytes(self.out))
    }
}
