//! NDJSON: one JSON object per line.

use super::json::{self, push_moment, push_number, push_string};
use super::{Header, OutputPiece, RowEncoder, Rows, SCHEMA_VERSION, Trailer};
use crate::accounting::Account;
use crate::row::{Moment, RowView, VolumeLabel};
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

/// A part of the lines whose text depends on `N` numbers. Neighbours often have the same numbers,
/// and then the text of the previous line is copied.
struct RepeatedPart<const N: usize> {
    /// The numbers of `text`. `None` before the first line.
    numbers: Option<[u64; N]>,
    text: Vec<u8>,
}

impl<const N: usize> RepeatedPart<N> {
    const fn new() -> Self {
        Self { numbers: None, text: Vec::new() }
    }

    /// Appends the text for `numbers` to `out`. `format` makes the text, which must depend on
    /// nothing else.
    #[inline]
    fn push(&mut self, out: &mut Vec<u8>, numbers: [u64; N], format: impl FnOnce(&mut Vec<u8>)) {
        if self.numbers != Some(numbers) {
            self.text.clear();
            format(&mut self.text);
            self.numbers = Some(numbers);
        }
        out.extend_from_slice(&self.text);
    }
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
    /// From the allocation group to the project.
    identity: RepeatedPart<6>,
    times: RepeatedPart<4>,
    /// From the extents to the change counter.
    counters: RepeatedPart<5>,
    /// The log sequence number and the flag words.
    flags: RepeatedPart<3>,
}

/// Appends a key and a number to `out` if `fields` has the field.
#[inline]
fn push_field(
    out: &mut Vec<u8>,
    fields: Fields,
    field: Field,
    key: &[u8],
    number: impl itoa::Integer,
) {
    if fields.contains(field) {
        out.extend_from_slice(key);
        push_number(out, number);
    }
}

/// Appends the times of an inode.
fn push_times(out: &mut Vec<u8>, fields: Fields, moments: [Moment; 4]) {
    let keys = [
        (Field::Atime, &b",\"atime\":"[..]),
        (Field::Mtime, b",\"mtime\":"),
        (Field::Ctime, b",\"ctime\":"),
        (Field::Btime, b",\"btime\":"),
    ];
    // Two times of an inode are often equal, and copying 19 digits is faster than writing them.
    let mut written: [Option<(Moment, usize, usize)>; 4] = [None; 4];
    for (index, ((field, key), moment)) in keys.into_iter().zip(moments).enumerate() {
        if !fields.contains(field) {
            continue;
        }
        out.extend_from_slice(key);
        let same = written.iter().flatten().find(|(earlier, ..)| *earlier == moment);
        if let Some(&(_, start, end)) = same {
            out.extend_from_within(start..end);
            continue;
        }
        let start = out.len();
        push_moment(out, moment);
        if let Some(place) = written.get_mut(index) {
            *place = Some((moment, start, out.len()));
        }
    }
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
        Self {
            fields,
            out,
            volume: wanted,
            inode_start,
            identity: RepeatedPart::new(),
            times: RepeatedPart::new(),
            counters: RepeatedPart::new(),
            flags: RepeatedPart::new(),
        }
    }

    #[inline]
    fn number(&mut self, field: Field, key: &[u8], number: impl itoa::Integer) {
        push_field(&mut self.out, self.fields, field, key, number);
    }

    #[inline]
    fn identity(&mut self, view: &RowView<'_>) {
        let (row, fields, ag) = (view.row, self.fields, view.ag);
        let numbers = [ag, row.mode, row.nlink, row.uid, row.gid, row.project_id].map(u64::from);
        self.identity.push(&mut self.out, numbers, |out| {
            push_field(out, fields, Field::Ag, b",\"ag\":", ag);
            if fields.contains(Field::Type) {
                out.extend_from_slice(b",\"type\":\"");
                out.extend_from_slice(row.type_name().as_bytes());
                out.push(b'"');
            }
            push_field(out, fields, Field::Mode, b",\"mode\":", row.mode);
            push_field(out, fields, Field::Nlink, b",\"nlink\":", row.nlink);
            push_field(out, fields, Field::Uid, b",\"uid\":", row.uid);
            push_field(out, fields, Field::Gid, b",\"gid\":", row.gid);
            push_field(out, fields, Field::ProjectId, b",\"project_id\":", row.project_id);
        });
    }

    #[inline]
    fn times(&mut self, view: &RowView<'_>) {
        let (row, fields) = (view.row, self.fields);
        let moments = [row.atime, row.mtime, row.ctime, row.btime];
        let numbers = moments.map(Moment::since_origin);
        self.times.push(&mut self.out, numbers, |out| push_times(out, fields, moments));
    }

    #[inline]
    fn counters(&mut self, view: &RowView<'_>) {
        let (row, fields, rdev) = (view.row, self.fields, view.row.rdev());
        let (attr_extents, xflags) = (row.attr_extents, row.xflags);
        let numbers = [row.extents, attr_extents.into(), xflags.into(), rdev, row.change_count];
        self.counters.push(&mut self.out, numbers, |out| {
            push_field(out, fields, Field::Extents, b",\"extents\":", row.extents);
            push_field(out, fields, Field::AttrExtents, b",\"attr_extents\":", attr_extents);
            push_field(out, fields, Field::Xflags, b",\"xflags\":", xflags);
            push_field(out, fields, Field::Rdev, b",\"rdev\":", rdev);
            push_field(out, fields, Field::ChangeCount, b",\"change_count\":", row.change_count);
        });
    }

    #[inline]
    fn flags(&mut self, view: &RowView<'_>) {
        let (row, fields) = (view.row, self.fields);
        let numbers = [row.lsn, row.flags.into(), row.flags2];
        self.flags.push(&mut self.out, numbers, |out| {
            push_field(out, fields, Field::Lsn, b",\"lsn\":", row.lsn);
            push_field(out, fields, Field::Flags, b",\"flags\":", row.flags);
            push_field(out, fields, Field::Flags2, b",\"flags2\":", row.flags2);
        });
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
        self.number(Field::Ino, b",\"ino\":", view.row.ino);
        self.number(Field::Generation, b",\"generation\":", view.row.generation);
        self.identity(view);
        self.number(Field::Size, b",\"size\":", view.row.size);
        self.number(Field::Blocks, b",\"blocks\":", view.blocks());
        self.number(Field::RealtimeBlocks, b",\"rt_blocks\":", view.realtime_blocks());
        self.times(view);
        self.counters(view);
        self.flags(view);
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
