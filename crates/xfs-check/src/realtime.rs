//! The realtime section: its device, its superblock, and the metadata of its groups.
//!
//! Owns: the check of one realtime group (the whole section, if it has no groups): which files it
//! needs, the facts that follow from them, and their counters. Does **not** own: the bitmap and the
//! summary (`realtime/space.rs`), the walk over a btree (`realtime/tree.rs`), or the extents of
//! realtime files (`fork.rs`).

mod space;
pub(crate) mod summary;
mod tree;

use xfs_format::inode::{FileType, ForkFormat, ForkKind};
use xfs_format::realtime::{
    RealtimeGroup, RealtimeRefcountTree, RealtimeReverseMapTree, RealtimeSuperblock, RealtimeTree,
    RealtimeTreeEntries, verify_entries,
};
use xfs_format::refcount::{Refcount, RefcountDomain};
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{
    AgBlock, Corruption, FsBlock, IncompatFeatures, InodeNumber, RoCompatFeatures, Structure,
    StructureAddress,
};

use crate::blocks::{Findings, Volume};
use crate::code::Code;
use crate::facts::{Claim, Facts, Gap, Owner};
use crate::finding::{Finding, Place};
use crate::group::mapping_of;
use crate::metadata_files::{GroupFiles, MetadataKind};
use crate::metadir;
use crate::region::{Region, count_classic};
use crate::used_inode::{Inode, read_inode};

use summary::RealtimeSummary;
use tree::{RealtimeSpace, RealtimeVisitor};

/// The largest number of shared extents of a group that are kept, to find files with shared blocks
/// that are not marked as sharing.
const MOST_SHARED: usize = 1 << 20;
/// Number of bytes of the superblock of the realtime device that have a meaning.
const SUPERBLOCK_BYTES: usize = 56;

/// Checks the realtime device: its length, and the superblock in its first block. Returns the parts
/// that were not looked at because the device was not given.
pub(crate) fn check_device(volume: Volume<'_>, findings: &mut Findings) -> Option<String> {
    let superblock = volume.superblock;
    let realtime = &superblock.geometry.realtime;
    if !superblock.has_realtime() {
        return None;
    }
    let device = if realtime.is_internal() { Some(volume.device) } else { volume.realtime };
    let Some(device) = device else {
        return Some("the realtime device, which was not given (--rt-device)".to_owned());
    };
    let end = realtime.device_end().and_then(|end| superblock.geometry.blocks_to_bytes(end));
    let (section, length) = (end.unwrap_or(u64::MAX), device.length_bytes());
    if length < section {
        let found = format!("the device of the realtime section has {length} bytes");
        let finding = Finding::new(Code::RtDeviceShort, Place::default(), found);
        findings.push(finding.expected(format!("{section} bytes")));
    }
    if !superblock.has_realtime_superblock() {
        return None;
    }
    let place = Place::of_realtime(FsBlock(0), &superblock.geometry);
    let mut block = vec![0; superblock.geometry.block_size as usize];
    if let Err(error) = device.read_at(&mut block, 0) {
        findings.unreadable(Structure::RealtimeSuperblock, place, &error);
        return None;
    }
    let problem = match RealtimeSuperblock::decode(&block) {
        Err(corruption) => Some(corruption.check().to_string()),
        Ok(found) => match found.verify_against(superblock) {
            Err(corruption) => Some(corruption.check().to_string()),
            Ok(()) if found.label != superblock.label => {
                Some("the label differs from the superblock".to_owned())
            }
            Ok(()) => {
                let padding = block.get(8..12).into_iter().chain(block.get(SUPERBLOCK_BYTES..));
                let is_unused = padding.flatten().all(|byte| *byte == 0);
                (!is_unused).then(|| "unused bytes are not 0".to_owned())
            }
        },
    };
    if let Some(found) = problem {
        findings.push(Finding::new(Code::RtSuper, place, found));
    }
    None
}

/// The limit on the number of regions of a section without groups: this number, times the number of
/// blocks of the data device. A block of the bitmap has bits for at most four regions, and the
/// bitmap of a sound volume is a part of the data device.
const REGIONS_PER_BLOCK: u64 = 4;

/// Returns the regions of a realtime group: one, or all regions of a section without groups. If the
/// superblock states a section that is too long for its bitmap, returns only the first ones.
pub(crate) fn regions_of(volume: Volume<'_>, group: u32) -> impl Iterator<Item = Region> + use<> {
    let regions = match volume.geometry().realtime.group_count {
        0 => {
            let most = volume.geometry().data_blocks.saturating_mul(REGIONS_PER_BLOCK);
            0..count_classic(volume.geometry()).min(u32::try_from(most).unwrap_or(u32::MAX))
        }
        _ => group..group + 1,
    };
    regions.map(Region::Realtime)
}

/// Checks the metadata of a realtime group, and reports what it says about the blocks of the group.
pub(crate) fn check<T: Facts>(
    volume: Volume<'_>,
    number: u32,
    files: &GroupFiles,
    facts: &mut T,
    findings: &mut Findings,
) -> RealtimeSummary {
    let geometry = volume.geometry();
    let has_superblock = volume.superblock.has_realtime_superblock();
    let group = RealtimeGroup { geometry, number, has_superblock };
    let summary = RealtimeSummary::default();
    let mut check = GroupCheck { volume, group, facts, findings, summary };
    let fixed = group.superblock_blocks();
    if fixed != 0 {
        let owner = Owner::Used(RmapOwner::Volume);
        let region = Region::Realtime(number);
        check.facts.claim(&Claim::in_region(region, AgBlock(0), fixed, owner));
    }
    for kind in metadir::kinds_of_groups(volume) {
        let inode = files.get(&kind).copied();
        match kind {
            MetadataKind::Bitmap => check.space(inode, files.get(&MetadataKind::Summary).copied()),
            MetadataKind::ReverseMap => check.reverse_map(inode),
            MetadataKind::Refcounts => check.refcounts(inode),
            // The summary is checked together with the bitmap.
            _ => {}
        }
    }
    check.summary
}

/// The check of one realtime group in progress.
struct GroupCheck<'a, T> {
    volume: Volume<'a>,
    group: RealtimeGroup<'a>,
    facts: &'a mut T,
    findings: &'a mut Findings,
    summary: RealtimeSummary,
}

/// The result of the walk over a btree.
#[derive(Clone, Copy)]
struct TreeTotal {
    /// Number of blocks that the records of the btree cover.
    covered: u64,
    /// The field of the inode that counts used blocks in a zoned section.
    used: u32,
}

impl<T: Facts> GroupCheck<'_, T> {
    fn region(&self) -> Region {
        Region::Realtime(self.group.number)
    }

    fn gap(&mut self, gap: fn(Region) -> Gap) {
        for region in regions_of(self.volume, self.group.number) {
            self.facts.gap(gap(region));
        }
    }

    fn file_problem(&mut self, inode: InodeNumber, found: String) {
        let mut place = Place::of_inode(inode, self.volume.geometry());
        place.realtime_group = Some(self.group.number);
        self.findings.push(Finding::new(Code::RtFile, place, found));
    }

    /// Walks the btree in an inode. Returns `None` if a part of it could not be read.
    fn tree<F: RealtimeTree>(
        &mut self,
        inode: Option<InodeNumber>,
        record: impl FnMut(&mut T, &<F::Format as xfs_format::btree::BtreeFormat>::Record) -> u64,
    ) -> Option<TreeTotal> {
        // A missing file and an unreadable inode are findings of other passes.
        let number = inode?;
        let (core, bytes) = read_inode(self.volume, number)?;
        if core.data_format != ForkFormat::MetadataBtree {
            self.file_problem(number, "the inode holds no root of a btree".to_owned());
            return None;
        }
        let inode = Inode { core, bytes: &bytes, file_type: FileType::Regular };
        let geometry = self.volume.geometry();
        let address = StructureAddress::Inode(number);
        let corrupt = |check| Corruption::new(Structure::RealtimeMetadata, address, check);
        let entries = match RealtimeTreeEntries::of_root::<F>(inode.fork(ForkKind::Data)) {
            Ok(entries) => entries,
            Err(check) => {
                self.findings.corrupt(&corrupt(check), geometry);
                return None;
            }
        };
        if let Err(check) = verify_entries::<F>(&entries, &self.group) {
            self.findings.corrupt(&corrupt(check), geometry);
        }
        let budget = inode.core.blocks.min(geometry.data_blocks);
        let space = RealtimeSpace { volume: self.volume, group: self.group, owner: number, budget };
        let mut visitor =
            BlockOwner { facts: &mut *self.facts, volume: self.volume, number, covered: 0, record };
        let blocks = tree::walk::<F, _>(space, &entries, &mut visitor, self.findings)?;
        self.summary.trees.push((number, blocks));
        Some(TreeTotal { covered: visitor.covered, used: inode.core.cow_extent_size_hint_blocks })
    }

    fn reverse_map(&mut self, inode: Option<InodeNumber>) {
        let region = self.region();
        let geometry = self.volume.geometry();
        let has_sharing = geometry.has_ro_compat(RoCompatFeatures::REFLINK);
        let is_zoned = self.volume.superblock.has_incompat(IncompatFeatures::ZONED);
        let may_overlap = has_sharing && !is_zoned;
        let (mut end, mut overlapping) = (0, Vec::new());
        let total = self.tree::<RealtimeReverseMapTree>(inode, |facts, record: &Rmap| {
            facts.mapping(&mapping_of(region, record));
            if !may_overlap && record.start.0 < end {
                overlapping.push(record.start.0);
            }
            end = end.max(record.end().0);
            record.count.into()
        });
        for start in overlapping {
            let found = format!("the record at block {start} overlaps the one before");
            let place = region.place(start, geometry);
            self.findings.push(Finding::new(Code::RtOrder, place, found));
        }
        match total {
            None => {
                self.gap(Gap::ReverseMap);
                // The blocks of the btree are not known.
                self.facts.gap(Gap::Claims);
            }
            Some(total) if is_zoned && u64::from(total.used) != total.covered => {
                let place =
                    inode.map_or_else(Place::default, |inode| Place::of_inode(inode, geometry));
                let place = Place { realtime_group: Some(self.group.number), ..place };
                let finding = Finding::new(Code::RtUsed, place, total.used.to_string());
                self.findings.push(finding.expected(total.covered.to_string()));
            }
            Some(_) => {}
        }
    }

    fn refcounts(&mut self, inode: Option<InodeNumber>) {
        let region = self.region();
        let mut shared = Vec::new();
        let total = self.tree::<RealtimeRefcountTree>(inode, |facts, record: &Refcount| {
            facts.shared(region, record);
            if record.domain == RefcountDomain::Staging {
                let owner = Owner::Used(RmapOwner::Staging);
                facts.claim(&Claim::in_region(region, record.start, record.count, owner));
            } else if shared.len() < MOST_SHARED {
                shared.push((record.start.0, record.end().0));
            }
            record.count.into()
        });
        self.summary.knows_shared = total.is_some() && shared.len() < MOST_SHARED;
        self.summary.shared = shared;
        if total.is_none() {
            self.gap(Gap::Refcounts);
            self.gap(Gap::GroupClaims);
            self.facts.gap(Gap::Claims);
        }
    }
}

/// A visitor of a btree. Passes the owner of each block of the btree to the receiver of facts, and
/// each record to `record`, which returns the number of blocks that the record covers.
struct BlockOwner<'f, T, R> {
    facts: &'f mut T,
    volume: Volume<'f>,
    number: InodeNumber,
    covered: u64,
    record: R,
}

impl<F, T, R> RealtimeVisitor<F> for BlockOwner<'_, T, R>
where
    F: RealtimeTree,
    T: Facts,
    R: FnMut(&mut T, &<F::Format as xfs_format::btree::BtreeFormat>::Record) -> u64,
{
    fn block(&mut self, block: FsBlock) {
        if let Some((group, start)) = self.volume.geometry().split_block(block) {
            let owner = Owner::Used(RmapOwner::Inode(self.number));
            let claim = Claim::of(group, start, 1, owner);
            self.facts.claim(&Claim { flags: RmapFlags::FORK_BTREE, ..claim });
        }
    }

    fn record(&mut self, record: &<F::Format as xfs_format::btree::BtreeFormat>::Record) {
        self.covered += (self.record)(self.facts, record);
    }
}
