//! Restoring damaged inodes whose newest state is in the log.
//!
//! Owns: the decision whether the log, the damaged inode and the reverse map together give a
//! complete inode. Does **not** own: reading the log (`logged.rs`), or the use of the result.
//! `xfs-repair` writes the inode to the volume, and `xfs-salvage` copies the file.
//!
//! Only the newest state of an inode is used. The core in that state is exact. A fork that the log
//! lacks comes from the damaged inode if it can be read there, or else from the reverse map. If
//! neither has the data fork, the inode is not restored.

use xfs_format::InodeNumber;
use xfs_format::extent::{Extent, ExtentRules};
use xfs_format::inode::{
    self, CORE_BYTES, FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind, InodeCore,
};

use crate::fork::ForkEvidence;
use crate::inode::{InodeEvidence, InodeState};
use crate::logged::LoggedInode;
use crate::volume::Evidence;

/// The extents of forks, as the reverse maps of all groups record them.
pub trait MappedForks {
    /// Returns the extents of a fork, in any order. They may overlap if a reverse map is out of
    /// date.
    fn fork(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent>;

    /// Returns whether the reverse maps of all groups could be read without damage.
    fn is_whole(&self) -> bool;
}

/// An inode in its newest state, which the log has.
#[derive(Clone, Debug)]
pub struct RestoredInode {
    /// The core of the inode.
    pub core: InodeCore,
    /// The inode in its disk form, with a right checksum. The bytes of the forks in `from_map`, and
    /// of a lost attribute fork, are zeros.
    pub bytes: Vec<u8>,
    /// The forks that neither the log nor the damaged inode has, each with its extents from the
    /// reverse map, in the order of the file and without overlap.
    pub from_map: Vec<(ForkKind, Vec<Extent>)>,
    /// Whether no source has the attribute fork, although the core says that there is one.
    pub lacks_attributes: bool,
}

impl Evidence<'_> {
    /// Completes the logged state of an inode with the forks that the log lacks. `found` is the
    /// damaged inode.
    ///
    /// Returns `None` if the log does not have the newest state, or if no source has the extents of
    /// the data fork.
    #[must_use]
    pub fn restore_inode(
        &self,
        logged: &LoggedInode,
        found: &InodeEvidence,
        maps: &impl MappedForks,
    ) -> Option<RestoredInode> {
        let core = InodeCore::decode(&logged.bytes, found.number, self.geometry()).ok()?;
        if !logged.is_newest || core.mode == 0 {
            return None;
        }
        let is_missing = |kind: &ForkKind| !logged.has_fork(&core, *kind);
        let missing: Vec<ForkKind> =
            [ForkKind::Data, ForkKind::Attr].into_iter().filter(is_missing).collect();
        let whole = |bytes| RestoredInode {
            core: core.clone(),
            bytes,
            from_map: Vec::new(),
            lacks_attributes: false,
        };
        if missing.is_empty() {
            // Contents in other blocks may be damaged too: callers judge them by themselves.
            let bytes = logged.bytes.clone();
            let state = self.judge_inode(found.number, bytes.clone()).state;
            return matches!(state, InodeState::Sound(_)).then(|| whole(bytes));
        }
        if let Some(bytes) = with_forks_in_place(&core, logged, found, &missing) {
            let inode = self.judge_inode(found.number, bytes);
            if self.is_readable(&inode) {
                return Some(whole(inode.bytes));
            }
        }
        let mut restored = whole(logged.bytes.clone());
        for kind in missing {
            match mapped(self, &core, kind, maps) {
                Some(extents) => restored.from_map.push((kind, extents)),
                None if kind == ForkKind::Attr && core.attr_format == ForkFormat::Local => {
                    restored.lacks_attributes = true;
                }
                None => return None,
            }
        }
        self.has_all_blocks(&restored, maps).then_some(restored)
    }

    /// Returns whether an inode passes its checks and the contents of both forks can be read.
    #[must_use]
    pub fn is_readable(&self, inode: &InodeEvidence) -> bool {
        let InodeState::Sound(core) = &inode.state else { return false };
        let has_contents = match core.file_type() {
            Some(FileType::Directory) => self.entries(inode).is_whole(),
            Some(FileType::Symlink) => self.link_target(inode).is_whole,
            _ => self.extents(inode, ForkKind::Data).is_whole(),
        };
        has_contents && self.attributes(inode).is_whole()
    }

    /// Returns whether the extents of the inode add up to the number of blocks that the core
    /// states. The blocks of extent btrees count too. If a fork from the reverse map has a btree,
    /// the sum is therefore unknown, and the result is whether the reverse maps are undamaged.
    fn has_all_blocks(&self, restored: &RestoredInode, maps: &impl MappedForks) -> bool {
        let core = &restored.core;
        let found = self.judge_inode(core.number, restored.bytes.clone());
        let mut blocks = 0_u64;
        for kind in [ForkKind::Data, ForkKind::Attr] {
            let from_map = restored.from_map.iter().find(|(own, _)| *own == kind);
            if from_map.is_some() && core.fork_format(kind) == Some(ForkFormat::Btree) {
                return maps.is_whole();
            }
            blocks += match from_map {
                Some((_, extents)) => extents.iter().map(|e| u64::from(e.length_blocks)).sum(),
                None => {
                    let fork = self.extents(&found, kind);
                    let extents = fork.extents.iter().map(|e| u64::from(e.length_blocks));
                    extents.sum::<u64>() + fork.tree_blocks.len() as u64
                }
            };
        }
        blocks == core.blocks
    }
}

/// Returns the bytes of the inode from the log. The forks in `missing`, which the log lacks, are
/// copied from the damaged inode. `None` if the bytes of the damaged inode could not be read.
fn with_forks_in_place(
    core: &InodeCore,
    logged: &LoggedInode,
    found: &InodeEvidence,
    missing: &[ForkKind],
) -> Option<Vec<u8>> {
    let mut bytes = logged.bytes.clone();
    let middle = match core.has_attr_fork() {
        true => CORE_BYTES + usize::from(core.fork_offset) * FORK_OFFSET_BYTES,
        false => bytes.len(),
    };
    let end = bytes.len();
    for kind in missing {
        let range = if *kind == ForkKind::Data { CORE_BYTES..middle } else { middle..end };
        let source = found.bytes.get(range.clone())?;
        bytes.get_mut(range)?.copy_from_slice(source);
    }
    inode::seal(&mut bytes, core.lsn);
    Some(bytes)
}

/// Returns the extents of a fork according to the reverse map. `None` if the fork's format has no
/// extents, or if one of these extents is impossible in such a fork.
fn mapped(
    evidence: &Evidence<'_>,
    core: &InodeCore,
    kind: ForkKind,
    maps: &impl MappedForks,
) -> Option<Vec<Extent>> {
    let has_extents =
        matches!(core.fork_format(kind), Some(ForkFormat::Extents | ForkFormat::Btree));
    let mut fork = ForkEvidence::default();
    fork.fill(&has_extents.then(|| maps.fork(core.number, kind))?);
    let rules = ExtentRules::of(core, kind, evidence.geometry());
    let fits = |extent: &Extent| extent.verify(&rules).is_ok();
    fork.extents.iter().all(fits).then_some(fork.extents)
}
