//! The forks of all inodes, as the reverse maps of the groups record them.
//!
//! Owns: the reverse-map records of the damaged volume, sorted by inode. Does **not** own: the
//! choice between a fork and its records (rule `fork`).

use std::collections::BTreeMap;

use xfs_format::InodeNumber;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::rmap::{RmapFlags, RmapOwner};

use crate::claims;
use crate::metadata::{self, MetadirFiles, MetadirKind};
use crate::patient::Patient;
use crate::section;

/// For each inode, the extents that the reverse maps of all groups record. Each extent has a flag
/// that says whether it belongs to the attribute fork.
pub(crate) struct MappedExtents {
    by_inode: BTreeMap<InodeNumber, Vec<(ForkKind, Extent)>>,
    /// The extents that the reverse maps of realtime groups record.
    realtime: BTreeMap<InodeNumber, Vec<Extent>>,
    /// Whether the reverse maps of all groups could be read without damage.
    pub(crate) is_whole: bool,
    /// Whether the reverse maps of all realtime groups could be read without damage. Also `true`
    /// without a realtime section; `false` if the section has no reverse maps.
    pub(crate) knows_realtime: bool,
}

impl MappedExtents {
    /// Reads the reverse maps of all groups. A caller needs this only for damaged inodes.
    pub(crate) fn of(patient: &Patient) -> Self {
        let mut mapped = Self {
            by_inode: BTreeMap::new(),
            realtime: BTreeMap::new(),
            is_whole: true,
            knows_realtime: true,
        };
        for group in patient.geometry().groups() {
            let map = patient.reverse_map(group);
            mapped.is_whole &= map.is_whole;
            for record in &map.records {
                let RmapOwner::Inode(inode) = record.owner else { continue };
                if record.flags.contains(RmapFlags::FORK_BTREE) {
                    continue;
                }
                let is_attr = record.flags.contains(RmapFlags::ATTR);
                let kind = if is_attr { ForkKind::Attr } else { ForkKind::Data };
                let extent = claims::extent_of(patient.geometry(), group, record);
                mapped.by_inode.entry(inode).or_default().push((kind, extent));
            }
        }
        for extents in mapped.by_inode.values_mut() {
            extents.sort_by_key(|(_, extent)| (extent.file_block, extent.start));
        }
        mapped.read_realtime(patient);
        mapped
    }

    /// Reads the reverse maps of all realtime groups.
    fn read_realtime(&mut self, patient: &Patient) {
        let evidence = patient.evidence();
        let files = MetadirFiles::find(&evidence);
        for group in metadata::groups(patient.geometry()) {
            let Some(inode) = files.inode(group, MetadirKind::ReverseMap) else {
                self.knows_realtime = false;
                continue;
            };
            let tree = evidence.realtime_reverse_map(&evidence.inode(inode), group);
            self.knows_realtime &= tree.is_whole;
            for record in &tree.records {
                let RmapOwner::Inode(inode) = record.owner else { continue };
                self.realtime.entry(inode).or_default().push(Extent {
                    file_block: record.offset,
                    start: section::join(patient.geometry(), group, record.start.0.into()),
                    length_blocks: record.count,
                    unwritten: record.flags.contains(RmapFlags::UNWRITTEN),
                });
            }
        }
        for extents in self.realtime.values_mut() {
            extents.sort_by_key(|extent| (extent.file_block, extent.start));
        }
    }

    /// Returns the extents that the reverse maps record for a fork, in the order of the file. They
    /// may overlap if a reverse map is out of date. A data fork without blocks in allocation groups
    /// gets those in realtime groups.
    pub(crate) fn fork(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent> {
        let all = self.by_inode.get(&inode).into_iter().flatten();
        let own: Vec<Extent> =
            all.filter(|(own, _)| *own == kind).map(|(_, extent)| *extent).collect();
        match kind {
            ForkKind::Data if own.is_empty() => self.realtime_fork(inode),
            _ => own,
        }
    }

    /// Returns the extents that the reverse maps of realtime groups record for an inode, in the
    /// order of the file. They may overlap if a reverse map is out of date.
    pub(crate) fn realtime_fork(&self, inode: InodeNumber) -> Vec<Extent> {
        self.realtime.get(&inode).cloned().unwrap_or_default()
    }

    /// Returns whether the data of a file lies in the realtime section according to the reverse
    /// maps.
    pub(crate) fn is_realtime(&self, inode: InodeNumber) -> bool {
        let of_groups = self.by_inode.get(&inode).into_iter().flatten();
        let has_data = of_groups.into_iter().any(|(kind, _)| *kind == ForkKind::Data);
        !has_data && self.realtime.contains_key(&inode)
    }

    /// Returns whether all extents of a fork are known: those of a realtime file from the reverse
    /// maps of realtime groups, and all others from those of allocation groups.
    pub(crate) fn is_whole_for(&self, core: &InodeCore, kind: ForkKind) -> bool {
        match core.is_realtime() && kind == ForkKind::Data {
            true => self.knows_realtime,
            false => self.is_whole,
        }
    }
}
