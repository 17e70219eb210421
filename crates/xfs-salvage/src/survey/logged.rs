//! Salvage of damaged inodes from the log, if it has their newest states.
//!
//! Owns: the choice of the inodes that are looked for in the log, and the states that are found.
//! Does **not** own: the decision whether a state is the newest and complete (`xfs-evidence`).
//!
//! An inode that can be read is never replaced. A volume that was changed without its log, for
//! example by `xfs_repair`, can be newer than its log, so a file with an inode from the log counts
//! as doubtful.

use std::collections::BTreeMap;

use xfs_device::SharedDevice;
use xfs_evidence::{
    Evidence, InodeEvidence, InodeState, LoggedInode, MappedForks, RestoredInode, Trust,
};
use xfs_format::extent::Extent;
use xfs_format::inode::{self, ForkFormat, ForkKind};
use xfs_format::rmap::{ReverseMap, RmapFlags, RmapOwner};
use xfs_format::{AgNumber, Geometry, InodeNumber};
use zerocopy::IntoBytes;

use super::maps::{MOST_EXTENTS, extent_of};
use super::{Stopped, Survey, groups_on_device};
use crate::inventory::Mark;

/// The damaged inodes whose newest state is in the log.
#[derive(Default)]
pub(crate) struct LoggedInodes {
    states: BTreeMap<InodeNumber, LoggedState>,
}

/// The newest state of an inode, in the form that the readers of inodes understand.
struct LoggedState {
    /// The bytes of the inode, with a right checksum. A data fork that comes from the reverse map
    /// is empty.
    bytes: Vec<u8>,
    /// Whether no source has the attributes of the inode.
    lacks_attributes: bool,
}

impl LoggedInodes {
    /// Returns an inode: the state from the log if there is one here, else the state on disk.
    pub(crate) fn inode(&self, evidence: &Evidence<'_>, number: InodeNumber) -> InodeEvidence {
        match self.states.get(&number) {
            Some(state) => evidence.judge_inode(number, state.bytes.clone()),
            None => evidence.inode(number),
        }
    }

    /// Returns whether the state of an inode comes from the log.
    pub(crate) fn has(&self, number: InodeNumber) -> bool {
        self.states.contains_key(&number)
    }

    /// Returns whether the state of an inode comes from the log, and the log lacks its attributes.
    pub(crate) fn lacks_attributes(&self, number: InodeNumber) -> bool {
        self.states.get(&number).is_some_and(|state| state.lacks_attributes)
    }
}

/// Returns a sentence about each block of a group that comes from the log and is not proven by its
/// checksum. Such a block may concern all inodes of its group, so the doubt is reported here and
/// not for single files.
pub(super) fn notes_of_blocks(evidence: &Evidence<'_>) -> Vec<String> {
    let blocks = evidence.group_blocks_from_log();
    let notes = blocks.map(|(at, kind)| {
        let structure = kind.structure();
        format!("the {structure} at {at} is damaged: its newest state comes from the log")
    });
    notes.collect()
}

/// The forks of inodes with a state in the log, as the reverse maps record them.
#[derive(Default)]
struct LoggedForks {
    forks: BTreeMap<InodeNumber, Vec<(ForkKind, Extent)>>,
    is_whole: bool,
}

impl MappedForks for LoggedForks {
    fn fork(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent> {
        let all = self.forks.get(&inode).into_iter().flatten();
        all.filter(|(own, _)| *own == kind).map(|(_, extent)| *extent).collect()
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl Survey<'_, '_> {
    /// Looks in the log for the newest states of the inodes that are in use and damaged. In groups
    /// whose inodes were found by reading the group, also looks for inodes of which nothing is left
    /// on disk, and marks those that are found as used.
    pub(super) fn restore_from_log(&mut self, log: Option<SharedDevice>) -> Result<(), Stopped> {
        let Some(log) = log else { return Ok(()) };
        let is_damaged =
            self.inventory.next(InodeNumber(0), Mark::Used, Some(Mark::Readable)).is_some();
        if !is_damaged && self.swept.is_empty() {
            return Ok(());
        }
        self.step("reading the log", 0, 1)?;
        let poll = || self.progress.step("reading the log", 0, 1);
        let logged = self.evidence.logged_inodes(log, |number| self.may_be_damaged(number), poll);
        self.step("reading the log", 1, 1)?;
        let maps = self.forks_of(&logged)?;
        let geometry = self.evidence.geometry();
        for (number, logged) in logged {
            let found = self.evidence.inode(number);
            let is_used = self.inventory.has(number, Mark::Used);
            // A sound inode that no group lists lies in a chunk that was freed.
            if !is_used && matches!(found.state, InodeState::Sound(_) | InodeState::Free(_)) {
                continue;
            }
            let restored = self.evidence.restore_inode(&logged, &found, &maps);
            let Some((state, data)) = restored.and_then(|restored| readable(restored, geometry))
            else {
                continue;
            };
            if let Some(data) = data {
                self.forks.insert(number, data);
            }
            self.logged.states.insert(number, state);
            self.inventory.mark(number, Mark::Used);
        }
        Ok(())
    }

    /// Returns whether an inode is in use and damaged, or may have been in use although nothing of
    /// it is left on disk.
    fn may_be_damaged(&self, number: InodeNumber) -> bool {
        if self.inventory.has(number, Mark::Readable) {
            return false;
        }
        let group = self.evidence.geometry().split_inode(number).map(|(group, _)| group);
        let is_unlisted = !self.inventory.has(number, Mark::Free)
            && group.is_some_and(|group| self.swept.contains(&group));
        is_unlisted || self.inventory.has(number, Mark::Used)
    }

    /// Collects the extents of those inodes of which the log lacks a fork, from the reverse maps.
    fn forks_of(
        &self,
        logged: &BTreeMap<InodeNumber, LoggedInode>,
    ) -> Result<LoggedForks, Stopped> {
        let lacks_fork = |inode: &LoggedInode| !inode.has_data || !inode.has_attr;
        let mut maps = LoggedForks { is_whole: true, ..LoggedForks::default() };
        if !logged.values().any(lacks_fork) {
            return Ok(maps);
        }
        let geometry = self.evidence.geometry();
        let mut count = 0;
        for group in (0..groups_on_device(&self.evidence)).map(AgNumber) {
            self.step("reading the reverse map", group.0.into(), geometry.ag_count.into())?;
            let forks = &mut maps.forks;
            let read = self.evidence.group_records::<ReverseMap>(group, |record, trust| {
                let RmapOwner::Inode(owner) = record.owner else { return };
                let is_wanted = logged.get(&owner).is_some_and(lacks_fork);
                if !is_wanted || record.flags.contains(RmapFlags::FORK_BTREE) {
                    return;
                }
                count += 1;
                if trust == Trust::Sound && count <= MOST_EXTENTS {
                    let is_attr = record.flags.contains(RmapFlags::ATTR);
                    let kind = if is_attr { ForkKind::Attr } else { ForkKind::Data };
                    let extent = extent_of(geometry, group, record);
                    forks.entry(owner).or_default().push((kind, extent));
                }
            });
            maps.is_whole &= read.is_whole && count <= MOST_EXTENTS;
        }
        Ok(maps)
    }
}

/// Puts an inode from the log into a form that the readers of inodes understand. Also returns the
/// extents of the data fork if they come from the reverse map. `None` if the core cannot be
/// encoded.
fn readable(
    restored: RestoredInode,
    geometry: &Geometry,
) -> Option<(LoggedState, Option<Vec<Extent>>)> {
    let RestoredInode { mut core, mut bytes, from_map, mut lacks_attributes } = restored;
    if from_map.is_empty() && !lacks_attributes {
        return Some((LoggedState { bytes, lacks_attributes }, None));
    }
    let mut data = None;
    if lacks_attributes {
        (core.attr_format, core.attr_extents) = (ForkFormat::Extents, 0);
    }
    for (kind, extents) in from_map {
        match kind {
            ForkKind::Data => {
                (core.data_format, core.extents) = (ForkFormat::Extents, 0);
                data = Some(extents);
            }
            ForkKind::Attr => {
                let start = bytes.len() - inode::fork(&bytes, &core, ForkKind::Attr).len();
                let count = put_extents(&extents, bytes.get_mut(start..)?);
                lacks_attributes = count.is_none();
                core.attr_format = ForkFormat::Extents;
                core.attr_extents = count.unwrap_or(0);
            }
        }
    }
    let disk = core.encode(geometry)?;
    bytes.get_mut(..size_of_val(&disk))?.copy_from_slice(disk.as_bytes());
    inode::seal(&mut bytes, core.lsn);
    Some((LoggedState { bytes, lacks_attributes }, data))
}

/// Writes extents into the fork of an inode. Returns their number, or `None`, with nothing written,
/// if they do not fit.
fn put_extents(extents: &[Extent], fork: &mut [u8]) -> Option<u32> {
    let records = extents.iter().map(Extent::encode).collect::<Option<Vec<_>>>()?;
    let bytes = records.as_slice().as_bytes();
    fork.get_mut(..bytes.len())?.copy_from_slice(bytes);
    u32::try_from(records.len()).ok()
}
