//! The forks of all inodes, as the reverse maps of the groups record them.
//!
//! Owns: the reverse-map records of the damaged volume, sorted by inode. Does **not** own: the
//! choice between a fork and its records (rule `fork`).

use std::collections::BTreeMap;

use xfs_format::InodeNumber;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_format::rmap::{RmapFlags, RmapOwner};

use crate::claims;
use crate::patient::Patient;

/// For each inode, the extents that the reverse maps of all groups record. Each extent has a flag
/// that says whether it belongs to the attribute fork.
pub(crate) struct MappedExtents {
    by_inode: BTreeMap<InodeNumber, Vec<(ForkKind, Extent)>>,
    /// Whether the reverse maps of all groups could be read without damage.
    pub(crate) is_whole: bool,
}

impl MappedExtents {
    /// Reads the reverse maps of all groups. A caller needs this only for damaged inodes.
    pub(crate) fn of(patient: &Patient) -> Self {
        let mut mapped = Self { by_inode: BTreeMap::new(), is_whole: true };
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
        mapped
    }

    /// Returns the extents that the reverse maps record for a fork, in the order of the file. They
    /// may overlap if a reverse map is out of date.
    pub(crate) fn fork(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent> {
        let all = self.by_inode.get(&inode).into_iter().flatten();
        all.filter(|(own, _)| *own == kind).map(|(_, extent)| *extent).collect()
    }
}
