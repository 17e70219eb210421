//! One inode: its core, its forks, and what the forks hold.
//!
//! Owns: the checks of the core against the inode btree and the forks, and the choice of the module
//! that reads a fork.

use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCheck, InodeCore, InodeFlags2};
use xfs_format::rmap::RmapFlags;
use xfs_format::{Check, FileBlock, Geometry, InodeNumber};

use crate::attributes;
use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::directory;
use crate::facts::{Claim, Facts, Gap, UsedInode};
use crate::finding::{Finding, Place};
use crate::flags;
use crate::fork::{ForkMap, walk};
use crate::group::GroupSummary;
use crate::metadata_inode;
use crate::quota;
use crate::realtime::summary::RealtimeSummaries;
use crate::region::Region;
use crate::symlink;
use crate::used_inode::Inode;

/// The state of a pass over inodes: the volume, and the receivers of facts and findings.
pub(crate) struct Pass<'a, T> {
    pub(crate) volume: Volume<'a>,
    pub(crate) groups: &'a [GroupSummary],
    pub(crate) realtime: &'a RealtimeSummaries,
    pub(crate) facts: &'a mut T,
    pub(crate) findings: &'a mut Findings,
    /// Whether the inode that is being checked claims blocks that are recorded as shared.
    pub(crate) has_shared: bool,
}

impl<T: Facts> Pass<'_, T> {
    pub(crate) fn geometry(&self) -> &Geometry {
        self.volume.geometry()
    }

    /// Takes blocks from the budget of reads. Returns `false` if the budget is used up; the first
    /// such call adds a finding.
    pub(crate) fn take_reads(&mut self, blocks: u64) -> bool {
        let reads = self.volume.reads;
        let has_some = reads.take(blocks);
        if !has_some && let Some(finding) = reads.finding() {
            self.findings.push(finding);
        }
        has_some
    }

    /// Records that an inode in use could not be read, so that claims, names and parent pointers
    /// may be missing.
    fn lose_inode(&mut self) {
        for gap in [Gap::Claims, Gap::Names, Gap::Parents] {
            self.facts.gap(gap);
        }
        quota::lose(self);
    }

    /// Checks an inode. `is_free` says whether it is free according to the inode btree.
    pub(crate) fn inode(&mut self, number: InodeNumber, bytes: &[u8], is_free: bool) {
        let geometry = self.volume.geometry();
        let core = match InodeCore::decode(bytes, number, geometry) {
            Ok(core) => core,
            Err(corruption) => {
                self.findings.corrupt(&corruption, geometry);
                if !is_free {
                    self.lose_inode();
                    self.facts.gap(Gap::Inodes(group_of(number, geometry)));
                }
                return;
            }
        };
        if let Err(corruption) = core.verify(bytes, &self.volume.context()) {
            self.findings.corrupt(&corruption, geometry);
            let is_another = matches!(
                corruption.check(),
                Check::Inode(InodeCheck::Misplaced { .. } | InodeCheck::Version { .. })
            );
            if is_another || Evidence::left_by(&corruption) == Evidence::None {
                if !is_free {
                    self.lose_inode();
                    self.facts.gap(Gap::Inodes(group_of(number, geometry)));
                }
                return;
            }
        }
        if core.is_free() != is_free {
            let said = |is_free| if is_free { "free" } else { "in use" };
            let place = Place::of_inode(number, geometry);
            let found = format!("the inode is {}", said(core.is_free()));
            let finding = Finding::new(Code::InoFree, place, found);
            self.findings.push(finding.expected(format!("{} by the inode btree", said(is_free))));
        }
        match core.file_type() {
            None if core.is_free() => self.free_inode(&core),
            // The verifier has reported a type that does not exist.
            None => self.lose_inode(),
            Some(file_type) => self.used_inode(&Inode { core, bytes, file_type }),
        }
    }

    fn free_inode(&mut self, core: &InodeCore) {
        if core.is_realtime() && !self.geometry().realtime.is_present() {
            let place = Place::of_inode(core.number, self.geometry());
            let found = "a free inode of a volume without a realtime device has the flag REALTIME";
            self.findings.push(Finding::new(Code::InodeFeature, place, found));
        }
        let (links, blocks) = (core.nlink, core.blocks);
        let (extents, attr_extents) = (core.extents, core.attr_extents);
        if links != 0 || blocks != 0 || extents != 0 || attr_extents != 0 {
            let place = Place::of_inode(core.number, self.geometry());
            let found = format!(
                "{links} links, {blocks} blocks, {extents} extents, {attr_extents} attribute extents"
            );
            self.findings.push(Finding::new(Code::InodeNotFree, place, found).expected("none"));
        }
    }

    fn used_inode(&mut self, inode: &Inode<'_>) {
        let core = &inode.core;
        self.fields(inode);
        self.facts.inode(&UsedInode {
            number: core.number,
            entry_type: EntryType::of(inode.file_type),
            links: core.nlink,
            is_metadata: inode.is_metadata(),
        });
        metadata_inode::check(self.volume, inode, self.findings);
        self.has_shared = false;
        let data = self.fork(inode, ForkKind::Data);
        self.needless_flag(inode, data.as_ref());
        let attr = self.fork(inode, ForkKind::Attr);
        quota::count(self, inode, data.as_ref());
        if let (Some(data), Some(attr)) = (&data, &attr) {
            let blocks = data.blocks + attr.blocks;
            if data.is_whole && attr.is_whole && blocks != core.blocks {
                let place = inode.place(self.geometry());
                let finding = Finding::new(Code::InodeBlocks, place, core.blocks.to_string());
                self.findings.push(finding.expected(blocks.to_string()));
            }
        }
        self.contents(inode, data.as_ref());
        attributes::check(self, inode, attr.as_ref());
    }

    /// Reports an inode with the flag of shared blocks but without such blocks. This is harmless:
    /// the flag stays when the other owners give the blocks up. Reports nothing if the shared
    /// blocks of a group are not all known, because the inode may have one of them.
    fn needless_flag(&mut self, inode: &Inode<'_>, data: Option<&ForkMap>) {
        let is_whole = data.is_some_and(|data| data.is_whole);
        let knows_shared = match inode.core.is_realtime() {
            true => self.knows_shared_realtime(),
            false => self.groups.iter().all(|group| group.knows_shared),
        };
        let is_known = is_whole && knows_shared;
        if inode.core.flags2.contains(InodeFlags2::REFLINK) && is_known && !self.has_shared {
            let place = inode.place(self.geometry());
            let found = "the inode has the flag of shared blocks, and no block of it is shared";
            self.findings.push(Finding::new(Code::InodeReflinkUnused, place, found));
        }
    }

    /// Returns whether the shared blocks of all realtime groups are known.
    fn knows_shared_realtime(&self) -> bool {
        let count = self.geometry().realtime.group_count as usize;
        self.realtime.len() == count && self.realtime.values().all(|group| group.knows_shared)
    }

    /// Checks fields of the core that the verifier does not know or that depend on each other.
    fn fields(&mut self, inode: &Inode<'_>) {
        let core = &inode.core;
        let place = inode.place(self.geometry());
        let bitmap = self.volume.superblock.realtime_bitmap_inode;
        if let Some(found) = flags::problem(core, inode.file_type, bitmap) {
            self.findings.push(Finding::new(Code::InodeFlags, place, found));
        }
        let has_size =
            matches!(inode.file_type, FileType::Regular | FileType::Directory | FileType::Symlink);
        if !has_size && core.size != 0 {
            let found = format!("a {:?} of {} bytes", inode.file_type, core.size);
            self.findings.push(Finding::new(Code::InodeSize, place, found).expected("0"));
        }
        // The kernel accepts this format without a fork, because inodes of new clusters have it.
        if !core.has_attr_fork() && core.attr_format == ForkFormat::Device {
            let found = "the attribute fork, which does not exist, has the format of a device";
            let finding = Finding::new(Code::InodeFormat, place, found);
            self.findings.push(finding.expected("the format of extents"));
        }
        let unit = self.geometry().realtime_extent_blocks.max(1);
        let hint = core.extent_size_hint_blocks;
        if core.is_realtime() && !hint.is_multiple_of(unit) {
            let found = format!("{hint} blocks in a realtime file");
            let finding = Finding::new(Code::InodeHint, place, found);
            self.findings.push(finding.expected(format!("a multiple of {unit}")));
        }
        if core.nlink != 0 && !core.next_unlinked.is_null() {
            let found = format!("a linked inode leads to inode {} of a list", core.next_unlinked.0);
            self.findings.push(Finding::new(Code::InodeUnlinked, place, found).expected("none"));
        }
    }

    /// Walks the map of a fork. Returns an empty map for a fork without extents, and `None` for one
    /// that cannot be read at all.
    fn fork(&mut self, inode: &Inode<'_>, kind: ForkKind) -> Option<ForkMap> {
        match inode.core.fork_format(kind) {
            Some(ForkFormat::Extents | ForkFormat::Btree) => walk(self, inode, kind),
            Some(ForkFormat::MetadataBtree) => Some(self.metadata_btree(inode)),
            _ => Some(ForkMap { is_whole: true, ..ForkMap::default() }),
        }
    }

    /// Returns the number of blocks of a btree of a realtime group, which an earlier pass has
    /// walked.
    fn metadata_btree(&mut self, inode: &Inode<'_>) -> ForkMap {
        let file = self.volume.metadata.file(inode.number());
        let summary = file.and_then(|file| self.realtime.get(&file.group));
        let trees = summary.into_iter().flat_map(|summary| &summary.trees);
        let mut walked = trees.filter(|(owner, _)| *owner == inode.number());
        match walked.next() {
            Some((_, blocks)) => ForkMap { blocks: *blocks, is_whole: true, ..ForkMap::default() },
            None => {
                // No path leads to the inode, or the earlier pass has reported its damage.
                self.facts.gap(Gap::Claims);
                ForkMap::default()
            }
        }
    }

    fn contents(&mut self, inode: &Inode<'_>, data: Option<&ForkMap>) {
        match (inode.file_type, data) {
            (FileType::Directory, Some(map)) => directory::check(self, inode, map),
            (FileType::Directory, None) => self.facts.gap(Gap::Names),
            (FileType::Symlink, Some(map)) => symlink::check(self, inode, map),
            (FileType::Regular, map) => {
                if let Some(kind) = quota::kind_of(self.volume, inode.number()) {
                    quota::check(self, inode, map, kind);
                }
            }
            _ => {}
        }
    }

    /// Passes to the receiver of facts that an inode owns blocks. Reports a finding if the blocks
    /// are recorded as shared, and the inode may not share them.
    pub(crate) fn claim(&mut self, inode: &Inode<'_>, claim: &Claim) {
        self.facts.claim(claim);
        let shared = match claim.region {
            Region::Data(group) => self.groups.get(group.0 as usize).map(|group| &group.shared),
            Region::Realtime(group) => self.realtime.get(&group).map(|group| &group.shared),
        };
        if shared.is_none_or(|shared| shared.is_empty() || !overlaps(shared, claim)) {
            return;
        }
        self.has_shared = true;
        let is_data = inode.file_type == FileType::Regular
            && !claim.flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE);
        let place = inode.place(self.geometry());
        let found = format!("{} blocks from block {}", claim.count, claim.start.0);
        if !is_data {
            let found =
                format!("{found}, which hold no contents of a file, are recorded as shared");
            self.findings.push(Finding::new(Code::RefcMetadata, place, found));
        } else if !inode.core.flags2.contains(InodeFlags2::REFLINK) {
            let found = format!("{found} are shared, and the inode does not have the flag");
            let place = place.at_file_block(FileBlock(claim.offset), false);
            self.findings.push(Finding::new(Code::InodeReflink, place, found));
        }
    }
}

/// Returns whether a claim overlaps one of the extents in `shared`, which are in order.
fn overlaps(shared: &[(u32, u32)], claim: &Claim) -> bool {
    let next = shared.partition_point(|(_, end)| *end <= claim.start.0);
    shared.get(next).is_some_and(|(start, _)| *start < claim.end())
}

fn group_of(number: InodeNumber, geometry: &Geometry) -> xfs_format::AgNumber {
    geometry.split_inode(number).map_or(xfs_format::AgNumber(0), |(group, _)| group)
}
