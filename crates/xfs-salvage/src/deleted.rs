//! Finds files that were deleted: their inodes are free, or lie in blocks that no longer belong to
//! an inode chunk.
//!
//! Owns: finding deleted files, their names, and those parts of their contents that no other file
//! has overwritten since. Does **not** own: inodes without a name that are still in use, which are
//! orphans.
//!
//! A file is deleted in two steps. First its blocks are freed, then its inode. The kernel writes
//! the freed inode without its extents, but leaves the bytes of its forks. If all inodes of a chunk
//! are free, the chunk is freed too, and its blocks keep the last written state of the inodes.

use std::collections::{BTreeMap, BTreeSet};

use xfs_device::SharedDevice;
use xfs_evidence::{
    Evidence, FileRange, ForkEvidence, FoundBlock, FoundName, InodeEvidence, InodeState, Sighting,
    sweep,
};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind, InodeCore};
use xfs_format::{DiskAddr, FileBlock, InodeNumber};

use crate::claims::Claims;
use crate::contents::{Contents, NO_DEVICE};
use crate::free_space::UnusedSpace;
use crate::inventory::Mark;
use crate::maps::{DIRECTORY_MAGICS, LINK_MAGIC, starts_with_any};
use crate::report::{InodeSource, Remarks};
use crate::survey::{Salvage, Stopped, Survey, SweepStep};

/// The most deleted files that are salvaged in one run.
const MOST_FILES: usize = 1 << 24;
/// The most blocks of directories whose old names are read.
const MOST_BLOCKS: usize = 1 << 22;
/// The number of inodes that are examined between two reports of progress.
const STEP_INODES: u64 = 1024;
/// The length of the longest name on the host, in bytes.
const MOST_NAME_BYTES: usize = 255;

/// The last known name of a deleted file: its directory, and the name in it.
pub(crate) type LastName = (InodeNumber, Vec<u8>);

/// The deleted files of a volume.
#[derive(Default)]
pub(crate) struct Deleted {
    files: Vec<InodeNumber>,
    names: BTreeMap<InodeNumber, LastName>,
    /// The bytes of deleted inodes from old records of the log. The map has only inodes whose state
    /// on disk has nothing left of the file.
    logged: BTreeMap<InodeNumber, Vec<u8>>,
    space: UnusedSpace,
}

impl Deleted {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the inode of a deleted file: the state in `logged` if there is one, else the state
    /// on disk.
    fn inode(&self, evidence: &Evidence<'_>, number: InodeNumber) -> InodeEvidence {
        match self.logged.get(&number) {
            Some(bytes) => evidence.judge_inode(number, bytes.clone()),
            None => evidence.inode(number),
        }
    }
}

impl Survey<'_, '_> {
    /// Reads the whole device for inodes that are not in use, and for directory blocks. Also
    /// searches the old records of the log for the states that these inodes had before they were
    /// freed.
    pub(crate) fn deleted(&mut self, log: Option<SharedDevice>) -> Result<Deleted, Stopped> {
        let evidence = &self.evidence;
        let (inventory, claims) = (&self.inventory, &self.claims);
        let mut deleted = Deleted::default();
        let mut blocks = Vec::new();
        let mut on_sighting = |sighting: &Sighting, bytes: &[u8]| match sighting.what {
            FoundBlock::Inode { .. } => {
                let number = InodeNumber(sighting.owner);
                if inventory.has(number, Mark::Used) || deleted.files.len() >= MOST_FILES {
                    return;
                }
                let inode = evidence.judge_inode(number, bytes.to_vec());
                if is_file(evidence, claims, &deleted.space, &inode) {
                    deleted.files.push(number);
                }
            }
            FoundBlock::DirectoryData if blocks.len() < MOST_BLOCKS => blocks.push(sighting.at),
            _ => {}
        };
        let groups = 0..evidence.geometry().ag_count;
        let swept = sweep(evidence, groups, &SweepStep(self.progress), &mut on_sighting);
        if swept.is_stopped {
            return Err(Stopped);
        }
        if let Some(log) = log {
            self.add_logged(&mut deleted, log)?;
        }
        deleted.files.sort_unstable();
        self.deleted_names(&mut deleted, &blocks)?;
        Ok(deleted)
    }

    /// Adds the deleted files for whose inodes the log still has a state from before the deletion.
    /// If an inode is still unchanged on disk, the inode on disk is used instead.
    fn add_logged(&self, deleted: &mut Deleted, log: SharedDevice) -> Result<(), Stopped> {
        let (evidence, inventory) = (&self.evidence, &self.inventory);
        let wanted = |number| !inventory.has(number, Mark::Used);
        let found: BTreeSet<InodeNumber> = deleted.files.iter().copied().collect();
        let poll = || self.progress.step("reading the log", 0, 1);
        let logged = evidence.logged_inodes(log, wanted, poll);
        let all = logged.len() as u64;
        for ((number, logged), done) in logged.into_iter().zip(0..) {
            if done % STEP_INODES == 0 {
                self.step("looking at deleted files", done, all)?;
            }
            let on_disk = evidence.inode(number);
            if found.contains(&number) && on_disk.core().is_some() {
                continue;
            }
            let inode = evidence.judge_inode(number, logged.bytes.clone());
            let is_new = !found.contains(&number);
            let is_file = is_file(evidence, &self.claims, &deleted.space, &inode);
            if is_file && (!is_new || deleted.files.len() < MOST_FILES) {
                deleted.logged.insert(number, logged.bytes);
                if is_new {
                    deleted.files.push(number);
                }
            }
        }
        // A reader of the log that was stopped has returned no inodes.
        self.step("looking at deleted files", all, all)
    }

    fn deleted_names(&self, deleted: &mut Deleted, blocks: &[DiskAddr]) -> Result<(), Stopped> {
        let all = deleted.files.len() as u64;
        for (number, done) in deleted.files.iter().zip(0..) {
            if done % STEP_INODES == 0 {
                self.step("looking at deleted files", done, all)?;
            }
            let inode = deleted.inode(&self.evidence, *number);
            let parents = match inode.core() {
                Some(_) => self.evidence.attributes(&inode).parents,
                None => self.evidence.parents_left(&inode),
            };
            if let Some(found) = parents.into_iter().next() {
                deleted.names.insert(*number, (found.parent, found.name.into_vec()));
            }
        }
        for (at, done) in blocks.iter().zip(0..) {
            self.step("looking for deleted names", done, blocks.len() as u64)?;
            let Some((owner, found)) = self.evidence.directory_block(*at) else { continue };
            let old = self.evidence.deleted_names(*at);
            // A block that was freed keeps its entries as they were.
            for FoundName { name, child, .. } in old.into_iter().chain(found.names) {
                if deleted.files.binary_search(&child).is_ok() {
                    deleted.names.entry(child).or_insert((owner, name.into_vec()));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an inode that is not in use holds a deleted file that can be salvaged: a regular
/// file with contents, or a symbolic link with its target.
fn is_file(
    evidence: &Evidence<'_>,
    claims: &Claims,
    space: &UnusedSpace,
    inode: &InodeEvidence,
) -> bool {
    let (InodeState::Sound(core) | InodeState::Free(core)) = &inode.state else { return false };
    let is_kept = match core.file_type() {
        Some(FileType::Regular) => true,
        // A short target lies in the inode.
        Some(FileType::Symlink) => return evidence.link_target(inode).is_whole,
        Some(_) => false,
        None => core.is_free(),
    };
    if !is_kept {
        return false;
    }
    let map = map_of(evidence, inode, core);
    if core.is_free() && map.extents.first().is_some_and(|first| is_metadata(evidence, first)) {
        return false;
    }
    let is_free = |extent: &Extent| !space.free_parts(evidence, claims, extent).is_empty();
    map.extents.iter().any(is_free) || (!core.is_free() && core.size == 0)
}

/// Returns the extent map of a deleted file. If its inode was freed, the map is read from the bytes
/// that its data fork still has.
fn map_of(evidence: &Evidence<'_>, inode: &InodeEvidence, core: &InodeCore) -> ForkEvidence {
    if core.is_free() {
        evidence.remains(inode, ForkKind::Data)
    } else {
        evidence.extents(inode, ForkKind::Data)
    }
}

/// Returns whether the first block of an extent is a block of a directory or of a link's target.
fn is_metadata(evidence: &Evidence<'_>, first: &Extent) -> bool {
    starts_with_any(evidence, first, &DIRECTORY_MAGICS)
        || starts_with_any(evidence, first, &[LINK_MAGIC])
}

impl Salvage<'_> {
    /// Returns the deleted file with the number `index`: its name in the made-up directory
    /// `deleted`, its inode, and its last known directory and name.
    pub(crate) fn deleted_file(
        &self,
        index: usize,
    ) -> Option<(Vec<u8>, InodeEvidence, Option<LastName>)> {
        let number = *self.deleted.files.get(index)?;
        let last_name = self.deleted.names.get(&number).cloned();
        let mut name = number.0.to_string().into_bytes();
        // A name from remains can hold bytes that no name on the host has. The report has them.
        let is_plain = |last: &&LastName| !last.1.iter().any(|byte| matches!(byte, b'/' | 0));
        if let Some((_, last)) = last_name.as_ref().filter(is_plain) {
            name.push(b'-');
            name.extend_from_slice(last);
            name.truncate(MOST_NAME_BYTES);
        }
        Some((name, self.deleted.inode(&self.evidence, number), last_name))
    }

    /// Returns the mode to use for the deleted file with the number `index`, if its inode has lost
    /// its mode. Returns 0 if the inode's own mode is used.
    pub(crate) fn deleted_mode(&self, index: usize) -> u16 {
        let number = self.deleted.files.get(index).copied();
        let inode = number.map(|number| self.deleted.inode(&self.evidence, number));
        let has_mode = inode.is_some_and(|inode| inode.core().is_some());
        if has_mode { 0 } else { FileType::Regular.mode_bits() | 0o600 }
    }

    /// Returns the source of the inode of the deleted file with the number `index`: the disk or the
    /// log.
    pub(crate) fn deleted_source(&self, index: usize) -> InodeSource {
        let number = self.deleted.files.get(index);
        match number.is_some_and(|number| self.deleted.logged.contains_key(number)) {
            true => InodeSource::Log,
            false => InodeSource::Disk,
        }
    }

    /// Returns the contents of a deleted file, without the blocks that another owner uses now.
    pub(crate) fn deleted_contents(
        &self,
        inode: &InodeEvidence,
        remarks: &mut Remarks,
    ) -> Contents {
        let block_log = self.evidence.geometry().block_log;
        let core = inode.any_core().expect("a deleted file has a core");
        let map = map_of(&self.evidence, inode, core);
        if self.evidence.is_realtime(core) {
            let Some(source) = self.source(true) else {
                remarks.lack(NO_DEVICE);
                return Contents::new(ForkEvidence::default(), core.size, block_log);
            };
            // No record of free realtime blocks is read here.
            remarks.doubt("realtime blocks of a deleted file may be in use again");
            return Contents::new(map, core.size, block_log).from(source);
        }
        let end = map.extents.last().map_or(0, |last| last.end().0);
        let mut kept = ForkEvidence { missing: map.missing, ..ForkEvidence::default() };
        for extent in &map.extents {
            let mut next = extent.file_block;
            for part in self.deleted.space.free_parts(&self.evidence, &self.claims, extent) {
                let (start, end) = (part.file_block, part.end());
                kept.missing.extend(gap(next, start));
                kept.extents.push(part);
                next = end;
            }
            kept.missing.extend(gap(next, extent.end()));
        }
        if !kept.missing.is_empty() {
            remarks.note("blocks that are in use again are left out");
        }
        let size = if core.is_free() {
            remarks.note("the size is not known: the contents end with a whole block");
            end.checked_shl(block_log.into()).unwrap_or(u64::MAX)
        } else {
            core.size
        };
        Contents::new(kept, size, block_log)
    }
}

fn gap(start: FileBlock, end: FileBlock) -> Option<FileRange> {
    (start < end).then_some(FileRange { start, end })
}
