//! NDJSON: one JSON object per line.

use super::json::{self, push_moment, push_number, push_string};
use super::{Header, OutputPiece, RowEncoder, Rows, SCHEMA_VERSION, Trailer};
use crate::accounting::Account;
use crate::row::{RowView, VolumeLabel};
use crate::{Field, Fields, Finding, ScanError};

/// Returns the first line of the output.
pub(super) fn head(header: Header) -> Vec<u8> {
    let Header { scan_time } = header;
    format!("{{\"row\":\"scan\",\"schema_version\":{SCHEMA_VERSION},\"scan_time\":{scan_time}}}\n")
        .into_bytes()
}

/// Returns the last line of the output.
pub(super) fn tail(trailer: Trailer) -> Vec<u8> {
    let Trailer { inodes, findings, missing_inodes } = trailer;
    format!(
        "{{\"row\":\"end\",\"inodes\":{inodes},\"errors\":{findings},\"missing_inodes\":{missing_inodes}}}\n"
    )
    .into_bytes()
}

/// Returns the line that precedes the rows of a volume.
pub(super) fn volume(volume: &VolumeLabel) -> Vec<u8> {
    let mut out = b"{\"row\":\"volume\",\"volume_uuid\":".to_vec();
    push_string(&mut out, &volume.uuid.to_string());
    out.extend_from_slice(b",\"volume_label\":");
    push_string(&mut out, &volume.label_text());
    if let Some(log) = volume.log {
        out.extend_from_slice(b",\"log\":");
        push_string(&mut out, log.name());
    }
    out.extend_from_slice(b"}\n");
    out
}

/// Encodes the rows of one volume.
pub(super) struct NdjsonEncoder {
    fields: Fields,
    out: Vec<u8>,
    /// The text `,"volume_uuid":…,"volume_label":…`, with only those of the two keys that were
    /// requested.
    volume: Vec<u8>,
    /// `{"row":"inode"` and the volume: the part with which every row of an inode starts.
    inode_start: Vec<u8>,
}

impl NdjsonEncoder {
    pub(super) fn new(fields: Fields, volume: &VolumeLabel, out: Vec<u8>) -> Self {
        let mut wanted = Vec::new();
        if fields.contains(Field::VolumeUuid) {
            wanted.extend_from_slice(b",\"volume_uuid\":");
            push_string(&mut wanted, &volume.uuid.to_string());
        }
        if fields.contains(Field::VolumeLabel) {
            wanted.extend_from_slice(b",\"volume_label\":");
            push_string(&mut wanted, &volume.label_text());
        }
        let inode_start = [b"{\"row\":\"inode\"", wanted.as_slice()].concat();
        Self { fields, out, volume: wanted, inode_start }
    }

    #[inline]
    fn number(&mut self, field: Field, key: &[u8], number: impl itoa::Integer) {
        if self.fields.contains(field) {
            self.out.extend_from_slice(key);
            push_number(&mut self.out, number);
        }
    }

    fn identity(&mut self, view: &RowView<'_>) {
        let row = view.row;
        self.number(Field::Ino, b",\"ino\":", row.ino);
        self.number(Field::Generation, b",\"generation\":", row.generation);
        self.number(Field::Ag, b",\"ag\":", view.ag);
        if self.fields.contains(Field::Type) {
            self.out.extend_from_slice(b",\"type\":\"");
            self.out.extend_from_slice(row.type_name().as_bytes());
            self.out.push(b'"');
        }
        self.number(Field::Mode, b",\"mode\":", row.mode);
        self.number(Field::Nlink, b",\"nlink\":", row.nlink);
        self.number(Field::Uid, b",\"uid\":", row.uid);
        self.number(Field::Gid, b",\"gid\":", row.gid);
        self.number(Field::ProjectId, b",\"project_id\":", row.project_id);
        self.number(Field::Size, b",\"size\":", row.size);
        self.number(Field::Blocks, b",\"blocks\":", view.blocks());
        self.number(Field::RealtimeBlocks, b",\"rt_blocks\":", view.realtime_blocks());
    }

    fn times(&mut self, view: &RowView<'_>) {
        let row = view.row;
        let times = [
            (Field::Atime, &b",\"atime\":"[..], row.atime),
            (Field::Mtime, b",\"mtime\":", row.mtime),
            (Field::Ctime, b",\"ctime\":", row.ctime),
            (Field::Btime, b",\"btime\":", row.btime),
        ];
        for (field, key, moment) in times {
            if self.fields.contains(field) {
                self.out.extend_from_slice(key);
                push_moment(&mut self.out, moment);
            }
        }
    }

    fn owners(&mut self, view: &RowView<'_>) {
        let owners = [
            (Field::Owner, &b",\"owner\":"[..], view.owner()),
            (Field::Group, b",\"group\":", view.group()),
        ];
        for (field, key, name) in owners {
            if let Some(name) = name.filter(|_| self.fields.contains(field)) {
                self.out.extend_from_slice(key);
                push_string(&mut self.out, name);
            }
        }
    }

    fn parents(&mut self, view: &RowView<'_>) {
        if self.fields.contains(Field::Parents) {
            let parents = view.parents_in_columns().map(|parent| parent.ino);
            json::push_numbers(&mut self.out, b",\"parents\":", parents);
        }
        if self.fields.contains(Field::ParentGenerations) {
            let generations = view.parents_in_columns().map(|parent| parent.generation);
            json::push_numbers(&mut self.out, b",\"parent_generations\":", generations);
        }
    }

    fn names(&mut self, view: &RowView<'_>) {
        if self.fields.contains(Field::Hash)
            && let Some(hash) = view.hash
        {
            self.out.extend_from_slice(b",\"hash\":");
            push_string(&mut self.out, hash);
        }
        if self.fields.contains(Field::Symlink)
            && let Some(target) = view.symlink
        {
            if let Ok(text) = std::str::from_utf8(target) {
                self.out.extend_from_slice(b",\"symlink\":");
                push_string(&mut self.out, text);
            } else {
                self.out.extend_from_slice(b",\"symlink_bytes\":");
                json::push_base64(&mut self.out, target);
            }
        }
        if self.fields.contains(Field::Xattrs) {
            json::push_list(&mut self.out, &json::XATTRS, view.xattrs);
        }
        if self.fields.contains(Field::Paths) {
            json::push_list(&mut self.out, &json::PATHS, view.paths);
            if view.is_orphan {
                self.out.extend_from_slice(b",\"orphan\":true");
            }
        }
    }
}

impl RowEncoder for NdjsonEncoder {
    fn inode(&mut self, view: &RowView<'_>) -> Result<(), ScanError> {
        self.out.extend_from_slice(&self.inode_start);
        self.identity(view);
        self.times(view);
        self.number(Field::Extents, b",\"extents\":", view.row.extents);
        self.number(Field::AttrExtents, b",\"attr_extents\":", view.row.attr_extents);
        self.number(Field::Xflags, b",\"xflags\":", view.row.xflags);
        self.number(Field::Rdev, b",\"rdev\":", view.row.rdev());
        self.number(Field::ChangeCount, b",\"change_count\":", view.row.change_count);
        self.number(Field::Lsn, b",\"lsn\":", view.row.lsn);
        self.number(Field::Flags, b",\"flags\":", view.row.flags);
        self.number(Field::Flags2, b",\"flags2\":", view.row.flags2);
        self.owners(view);
        self.names(view);
        self.parents(view);
        self.out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn finding(&mut self, finding: &Finding) -> Result<(), ScanError> {
        let out = &mut self.out;
        out.extend_from_slice(b"{\"row\":\"error\"");
        out.extend_from_slice(&self.volume);
        out.extend_from_slice(b",\"code\":");
        push_string(out, finding.code.name());
        let numbers = [
            (&b",\"ag\":"[..], finding.ag.map(u64::from)),
            (b",\"ino\":", finding.ino),
            (b",\"inode_count\":", Some(finding.inode_count.into())),
            (b",\"disk_address\":", finding.disk_address),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                out.extend_from_slice(key);
                push_number(out, number);
            }
        }
        if let Some(structure) = finding.structure {
            out.extend_from_slice(b",\"structure\":");
            push_string(out, structure);
        }
        out.extend_from_slice(b",\"message\":");
        push_string(out, &finding.message);
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn account(&mut self, account: &Account) -> Result<(), ScanError> {
        let out = &mut self.out;
        out.extend_from_slice(b"{\"row\":\"account\"");
        out.extend_from_slice(&self.volume);
        out.extend_from_slice(b",\"by\":");
        push_string(out, account.by.name());
        let numbers = [
            (&b",\"key\":"[..], account.key),
            (b",\"inodes\":", account.inodes),
            (b",\"size\":", account.size),
            (b",\"blocks\":", account.blocks),
            (b",\"shared_blocks\":", account.shared_blocks),
        ];
        for (key, number) in numbers {
            out.extend_from_slice(key);
            push_number(out, number);
        }
        if let Some(owner) = &account.owner {
            out.extend_from_slice(b",\"owner\":");
            push_string(out, owner);
        }
        if !account.paths.is_empty() {
            json::push_list(out, &json::PATHS, &account.paths);
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.out.len()
    }

    fn finish(self: Box<Self>) -> Result<OutputPiece, ScanError> {
        Ok(OutputPiece { rows: Some(Rows::Lines(self.out)), facts: Vec::new() })
    }
}
