//! Reads the inode chunks of a unit of work and makes rows of the inodes.
//!
//! Owns: large sequential reads that bypass the buffer cache, and decoding every inode in them.
//! Does **not** own: data that is not in the inode itself. [`out_of_line`](crate::out_of_line)
//! reads such data in disk order, after all inodes of the unit.
//!
//! # Invariants
//!
//! - **I1** Every inode that the inode btree marks as used becomes a row or is covered by a
//!   finding. Exceptions are internal inodes, and inodes of a live volume that were freed
//!   meanwhile.

use xfs_buffer::{Error, IoError};
use xfs_dir::linux_names;
use xfs_format::attr::{AttrShortForm, Namespace};
use xfs_format::inode::{self, FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::parent::Parent;
use xfs_format::{
    AgBlock, AgInode, AgNumber, Corruption, DiskAddr, Geometry, InodeNumber, StructureAddress,
    VerifyContext,
};

use crate::batch::{Batch, Link, RowItem, push_item};
use crate::out_of_line::OutOfLineReader;
use crate::plan::allocated_count;
use crate::row::Row;
use crate::source::ScanSource;
use crate::{Field, Finding, FindingCode, ScanOptions};

/// The largest read in bytes. Larger reads are no faster, and this many bytes stay in the
/// processor's second-level cache until the inodes are decoded.
const READ_BYTES: usize = 512 << 10;
/// Size in bytes of the reads that follow a failed large read: at most one inode cluster.
const RETRY_BYTES: usize = 8 << 10;
/// Estimated number of bytes of names per inode. It sets the initial size of the buffer for the
/// names of a unit of work.
const NAME_BYTES_GUESS: usize = 40;

/// The kinds of data that a scan must read in addition to the inode cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadSelection {
    /// Whether parent pointers are read, on volumes that have them.
    pub(crate) parents: bool,
    /// Whether directory entries are read, on volumes without parent pointers.
    pub(crate) entries: bool,
    pub(crate) symlinks: bool,
    pub(crate) xattrs: bool,
    /// Whether the runs of blocks that a file shares with other files are read.
    pub(crate) sharing: bool,
    /// Whether the blocks that each file has in the realtime section are counted.
    pub(crate) realtime: bool,
}

impl ReadSelection {
    pub(crate) fn new(options: &ScanOptions, needs_paths: bool, source: &ScanSource) -> Self {
        let has_parents = source.has_parent_pointers();
        let fields = options.fields;
        Self {
            parents: needs_paths && has_parents,
            entries: needs_paths && !has_parents,
            symlinks: fields.contains(Field::Symlink),
            xattrs: fields.contains(Field::Xattrs),
            sharing: !options.accounts.is_empty(),
            realtime: fields.contains(Field::RealtimeBlocks),
        }
    }
}

/// A run of inodes of one chunk that are adjacent on disk.
#[derive(Clone, Copy, Debug)]
struct InodeSpan {
    first: AgInode,
    count: u32,
    /// Bit map of the used inodes. Bit 0 is the first inode of the span.
    allocated: u64,
}

/// The rows of a unit of work, with its findings.
#[derive(Default)]
pub(crate) struct UnitRows {
    pub(crate) batch: Batch,
    pub(crate) findings: Vec<Finding>,
}

/// Reads the inodes of units of work, for one worker thread.
pub(crate) struct UnitReader<'a> {
    source: &'a ScanSource,
    context: VerifyContext<'a>,
    selection: ReadSelection,
    buffer: Vec<u8>,
    /// An empty batch, whose memory the next unit of work uses.
    empty: Batch,
}

/// The most memory in bytes for names that a reader keeps for the next unit.
const KEPT_ARENA_BYTES: usize = 1 << 20;

impl<'a> UnitReader<'a> {
    pub(crate) fn new(source: &'a ScanSource, selection: ReadSelection) -> Self {
        let context = source.cache.verify_context();
        let (buffer, empty) = (vec![0; READ_BYTES], Batch::default());
        Self { source, context, selection, buffer, empty }
    }

    /// Takes a batch whose rows are no longer needed. The next unit of work uses its memory.
    pub(crate) fn reuse(&mut self, mut batch: Batch) {
        batch.rows.clear();
        batch.arena.clear();
        // A unit may have had many large attributes or names.
        batch.arena.shrink_to(KEPT_ARENA_BYTES);
        self.empty = batch;
    }

    /// Reads the inodes of `chunks` of an allocation group. Inodes with data outside of the inode
    /// are recorded in `out_of_line`.
    pub(crate) fn read(
        &mut self,
        group: AgNumber,
        chunks: &[InodeChunk],
        out_of_line: &mut OutOfLineReader<'_>,
    ) -> UnitRows {
        let inodes: usize = chunks.iter().map(|chunk| allocated_count(chunk) as usize).sum();
        let batch = std::mem::take(&mut self.empty);
        let mut out = UnitRows { batch, findings: Vec::new() };
        out.batch.rows.reserve_exact(inodes);
        if self.selection.parents {
            out.batch.arena.reserve(inodes * NAME_BYTES_GUESS);
        }
        let spans: Vec<InodeSpan> = chunks.iter().flat_map(spans).collect();
        let mut rest = spans.as_slice();
        while let Some((run, after)) = split_run(rest, self.geometry()) {
            self.read_run(group, run, &mut out, out_of_line);
            rest = after;
        }
        out
    }

    fn geometry(&self) -> &'a Geometry {
        self.context.geometry
    }

    fn read_run(
        &mut self,
        group: AgNumber,
        run: &[InodeSpan],
        out: &mut UnitRows,
        out_of_line: &mut OutOfLineReader<'_>,
    ) {
        let Some(first) = run.first() else { return };
        let inode_size = self.geometry().inode_size as usize;
        let count: u32 = run.iter().map(|span| span.count).sum();
        let length = count as usize * inode_size;
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let bytes = buffer.get_mut(..length).unwrap_or_default();
        let errors = self.fill(group, first.first, bytes);
        let mut position = 0;
        for span in run {
            // Each used inode is decoded, or noted in a finding (I1).
            for index in SetBits(span.allocated) {
                let start = position + index as usize * inode_size;
                let inode = AgInode(span.first.0.saturating_add(index));
                let number = self.geometry().join_inode(group, inode);
                match (bytes.get(start..start + inode_size), errors.error_at(start)) {
                    (Some(bytes), None) => self.decode(bytes, number, out, out_of_line),
                    (_, error) => note_unreadable(out, group, number, error),
                }
            }
            position += span.count as usize * inode_size;
        }
        self.buffer = buffer;
    }

    /// Reads the inodes from `first` on into `bytes`. If this one read fails, reads small pieces
    /// instead, so that only the inodes of unreadable pieces are lost.
    fn fill(&self, group: AgNumber, first: AgInode, bytes: &mut [u8]) -> RunErrors {
        let at = inode_byte_offset(self.geometry(), group, first);
        let device = self.source.cache.device();
        if device.read_at(bytes, at).is_ok() {
            return RunErrors { failed: Vec::new() };
        }
        let mut failed = Vec::new();
        for (index, piece) in bytes.chunks_mut(RETRY_BYTES).enumerate() {
            let start = index * RETRY_BYTES;
            let offset = at + start as u64;
            if let Err(source) = device.read_at(piece, offset) {
                let at = DiskAddr(offset / 512);
                let length_bytes = piece.len() as u64;
                failed.push((start, IoError::new("read", at, length_bytes, source)));
            }
        }
        RunErrors { failed }
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        number: InodeNumber,
        out: &mut UnitRows,
        out_of_line: &mut OutOfLineReader<'_>,
    ) {
        // The core is decoded in place: a result that holds it would be copied twice.
        let corruption = match InodeCore::decode(bytes, number, self.geometry()) {
            Ok(core) => match core.verify(bytes, &self.context) {
                Ok(()) if core.is_free() => return self.note_free(out, number),
                Ok(()) => return self.add(&core, bytes, out, out_of_line),
                Err(corruption) => corruption,
            },
            Err(corruption) => corruption,
        };
        self.decode_again(number, corruption, out, out_of_line);
    }

    fn verify(&self, bytes: &[u8], number: InodeNumber) -> Result<InodeCore, Corruption> {
        InodeCore::decode(bytes, number, self.geometry())
            .and_then(|core| core.verify(bytes, &self.context).map(|()| core))
    }

    /// Reads an inode again, up to a few times, if the volume is mounted: the kernel may have been
    /// writing the inode during the first read.
    #[cold]
    fn decode_again(
        &self,
        number: InodeNumber,
        mut corruption: Corruption,
        out: &mut UnitRows,
        out_of_line: &mut OutOfLineReader<'_>,
    ) {
        let mut bytes = vec![0; self.geometry().inode_size as usize];
        for _ in 0..self.source.cache.rereads() {
            let Some((group, inode)) = self.geometry().split_inode(number) else { break };
            let at = inode_byte_offset(self.geometry(), group, inode);
            if self.source.cache.device().read_at(&mut bytes, at).is_err() {
                break;
            }
            match self.verify(&bytes, number) {
                Ok(core) if core.is_free() => return self.note_free(out, number),
                Ok(core) => return self.add(&core, &bytes, out, out_of_line),
                Err(again) => corruption = again,
            }
        }
        note_corrupt(out, number, corruption);
    }

    /// Handles an inode that is free although the inode btree marks it as used. On a mounted volume
    /// the inode was freed after the btree was read; on any other volume it is a finding.
    #[cold]
    fn note_free(&self, out: &mut UnitRows, number: InodeNumber) {
        if self.source.cache.rereads() != 0 {
            return;
        }
        let message = "the inode btree marks the inode as used, but it is free".to_owned();
        hide(out, Finding::about(FindingCode::Allocation, number.0, message), number);
    }

    #[inline]
    fn add(
        &self,
        core: &InodeCore,
        bytes: &[u8],
        out: &mut UnitRows,
        out_of_line: &mut OutOfLineReader<'_>,
    ) {
        let is_internal = core.flags2.contains(inode::InodeFlags2::METADATA)
            || self.source.internal.contains(&core.number.0);
        if is_internal {
            return;
        }
        let mut row = Row::new(core);
        let start = out.batch.arena.len();
        let mut is_out_of_line = false;
        if core.has_attr_fork() && (self.selection.parents || self.selection.xattrs) {
            match core.attr_format {
                ForkFormat::Local => self.add_attrs(core, bytes, out),
                _ => is_out_of_line = core.attr_extents != 0,
            }
        }
        if self.selection.symlinks && core.file_type() == Some(FileType::Symlink) {
            match core.data_format {
                ForkFormat::Local => add_target(core, bytes, &mut out.batch.arena),
                _ => is_out_of_line = true,
            }
        }
        if self.selection.entries && core.file_type() == Some(FileType::Directory) {
            is_out_of_line = true;
        }
        out.batch.place_items(&mut row, start);
        if self.selection.sharing && row.is_reflink() {
            is_out_of_line = true;
        }
        if self.selection.realtime && core.is_realtime() {
            is_out_of_line = true;
        }
        if is_out_of_line {
            let error = out_of_line.note(out.batch.rows.len(), core.number, bytes);
            if let Some(error) = error {
                note_part(out, core.number, &error);
            }
        }
        out.batch.rows.push(row);
    }

    #[inline]
    fn add_attrs(&self, core: &InodeCore, bytes: &[u8], out: &mut UnitRows) {
        let place = StructureAddress::Inode(core.number);
        let fork = inode::fork(bytes, core, ForkKind::Attr);
        let selection = self.selection;
        let arena = &mut out.batch.arena;
        let added = AttrShortForm::decode(fork, place).and_then(|attrs| {
            for entry in attrs.entries() {
                let entry = entry?;
                push_attr(arena, &entry, selection, place)?;
            }
            Ok(())
        });
        if let Err(corruption) = added {
            note_part(out, core.number, &corruption.into());
        }
    }
}

/// Appends one attribute to `arena` if `selection` requests it: a parent pointer as a link, any
/// other attribute as its name.
#[inline]
pub(crate) fn push_attr(
    arena: &mut Vec<u8>,
    entry: &xfs_format::attr::AttrEntry<'_>,
    selection: ReadSelection,
    place: StructureAddress,
) -> Result<(), Corruption> {
    if entry.namespace == Namespace::Parent {
        if selection.parents
            && let Some(parent) = Parent::decode(entry, place)?
        {
            let link = Link {
                parent: parent.inode.0,
                parent_generation: parent.generation,
                name: parent.name,
            };
            push_item(arena, RowItem::Link(link));
        }
    } else if selection.xattrs {
        for name in linux_names(entry.namespace, entry.name) {
            push_item(arena, RowItem::Xattr(&name));
        }
    }
    Ok(())
}

fn add_target(core: &InodeCore, bytes: &[u8], arena: &mut Vec<u8>) {
    let fork = inode::fork(bytes, core, ForkKind::Data);
    let length = usize::try_from(core.size).unwrap_or(usize::MAX);
    push_item(arena, RowItem::Symlink(fork.get(..length).unwrap_or(fork)));
}

/// The pieces of one large read that could not be read.
struct RunErrors {
    /// Offset of each unreadable piece in bytes from the start of the read, and its error.
    failed: Vec<(usize, IoError)>,
}

impl RunErrors {
    /// Returns the error of the piece that contains the byte `offset` of the read, or `None` if the
    /// piece was read.
    fn error_at(&self, offset: usize) -> Option<&IoError> {
        if self.failed.is_empty() {
            return None;
        }
        let piece = offset - offset % RETRY_BYTES;
        self.failed.iter().find(|(start, _)| *start == piece).map(|(_, error)| error)
    }
}

/// Returns the byte offset of an inode on the device. Within an allocation group, inodes lie on
/// disk in the order of their numbers.
fn inode_byte_offset(geometry: &Geometry, group: AgNumber, inode: AgInode) -> u64 {
    let start = geometry.ag_block_disk_addr(group, AgBlock(0));
    start.0 * 512 + (u64::from(inode.0) << geometry.inode_log)
}

/// Returns the spans of a chunk that exist on disk and contain used inodes.
fn spans(chunk: &InodeChunk) -> impl Iterator<Item = InodeSpan> + use<> {
    let (present, allocated, start) = (chunk.present(), chunk.allocated(), chunk.start);
    let mut next = 0;
    std::iter::from_fn(move || {
        while next < u64::BITS {
            let from = next + (present >> next).trailing_zeros();
            if from >= u64::BITS {
                return None;
            }
            let count = (present >> from).trailing_ones();
            next = from + count;
            let mask = if count == u64::BITS { u64::MAX } else { (1 << count) - 1 };
            let allocated = (allocated >> from) & mask;
            if allocated != 0 {
                let first = AgInode(start.0.saturating_add(from));
                return Some(InodeSpan { first, count, allocated });
            }
        }
        None
    })
}

/// Splits `spans` in two. The spans of the first part, at least one, are adjacent on disk and fit
/// into one read. Returns `None` if there are no spans.
fn split_run<'s>(
    spans: &'s [InodeSpan],
    geometry: &Geometry,
) -> Option<(&'s [InodeSpan], &'s [InodeSpan])> {
    let most = READ_BYTES >> geometry.inode_log;
    let mut inodes = 0;
    let mut expected = spans.first()?.first;
    let mut length = 0;
    for span in spans {
        inodes += span.count as usize;
        if span.first != expected || (inodes > most && length != 0) {
            break;
        }
        expected = AgInode(span.first.0.saturating_add(span.count));
        length += 1;
    }
    spans.split_at_checked(length)
}

/// Iterates over the indexes of the bits that are set in a number, in ascending order.
struct SetBits(u64);

impl Iterator for SetBits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let position = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(position)
    }
}

/// Adds a finding for an inode that gets no row because of it. If the previous finding has the same
/// cause and adjacent inodes, that finding is extended instead: an unreadable block gives one
/// finding, not one per inode.
#[cold]
fn hide(out: &mut UnitRows, finding: Finding, number: InodeNumber) {
    if let Some(last) = out.findings.last_mut()
        && last.code == finding.code
        && last.structure == finding.structure
        && last.disk_address == finding.disk_address
        && last.inode_count != 0
        && last.ino.map(|first| first.wrapping_add(last.inode_count.into())) == Some(number.0)
    {
        last.inode_count += 1;
        return;
    }
    out.findings.push(finding.hides(number.0, 1));
}

#[cold]
fn note_unreadable(
    out: &mut UnitRows,
    group: AgNumber,
    number: InodeNumber,
    error: Option<&IoError>,
) {
    let mut finding =
        Finding::about(FindingCode::Io, number.0, "the inode was not read".to_owned());
    if let Some(error) = error {
        finding.message = error.to_string();
        finding.disk_address = Some(error.at.0);
    }
    hide(out, finding.in_group(group.0), number);
}

#[cold]
fn note_corrupt(out: &mut UnitRows, number: InodeNumber, corruption: Corruption) {
    hide(out, Finding::from_error(&Error::from(corruption)), number);
}

/// Adds a finding for a part of an inode that could not be read. The inode still gets a row, which
/// lacks this part.
#[cold]
pub(crate) fn note_part(out: &mut UnitRows, number: InodeNumber, error: &Error) {
    let mut finding = Finding::from_error(error);
    finding.ino = Some(number.0);
    out.findings.push(finding);
}

#[cfg(test)]
mod tests;
