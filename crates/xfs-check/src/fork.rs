//! The map of a fork: its extents, in the inode or in a btree.
//!
//! Owns: the checks of extents, the claims of the blocks of extents and of the btree, and the
//! counts that the inode repeats. Does **not** own: what the blocks hold.

use xfs_format::btree::Extents;
use xfs_format::extent::{
    Extent, ExtentCheck, ExtentList, ExtentRoot, ExtentRules, MAX_EXTENT_BLOCKS,
};
use xfs_format::geometry::RealtimeBlock;
use xfs_format::inode::{FileType, ForkFormat, ForkKind};
use xfs_format::rmap::RmapFlags;
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, DiskAddr, FileBlock, FsBlock, Group, Structure,
    StructureAddress,
};

use crate::announce;
use crate::blocks::{Evidence, Findings};
use crate::code::Code;
use crate::facts::{Claim, Facts, Gap};
use crate::finding::Finding;
use crate::inode::Pass;
use crate::quota;
use crate::region::{self, RealtimeRun};
use crate::tree::{TreeSpace, TreeVisitor, TreeWalk};
use crate::used_inode::{Inode, owner_of};

/// A fork of an inode.
#[derive(Clone, Copy)]
pub(crate) struct OpenFork<'a> {
    pub(crate) inode: &'a Inode<'a>,
    pub(crate) kind: ForkKind,
}

/// Consecutive blocks of a fork.
#[derive(Clone, Copy)]
pub(crate) struct BlockRun {
    pub(crate) block: FileBlock,
    pub(crate) count: u32,
}

/// The map of a fork: the extents that a walk has found, and the number of blocks that they take.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForkMap {
    /// The extents in order. Extents with the contents of a regular file are kept only for quota
    /// inodes.
    pub(crate) extents: Vec<Extent>,
    /// Number of blocks of the extents and of the btree that holds them.
    pub(crate) blocks: u64,
    /// Number of blocks of the extents that are in the realtime section.
    pub(crate) realtime_blocks: u64,
    /// Whether all extents are known.
    pub(crate) is_whole: bool,
    /// Number of extents that could be one with the extent before them.
    pub(crate) joinable: u64,
}

impl ForkMap {
    /// Returns the extent that holds a block of the fork; `None` if no known extent holds it.
    pub(crate) fn find(&self, block: FileBlock) -> Option<&Extent> {
        let next = self.extents.partition_point(|extent| extent.end() <= block);
        self.extents.get(next).filter(|extent| extent.file_block <= block)
    }

    /// Returns the disk address of a block of the fork; `None` if no known extent holds it.
    pub(crate) fn address<T: Facts>(
        &self,
        pass: &Pass<'_, T>,
        block: FileBlock,
    ) -> Option<DiskAddr> {
        let extent = self.find(block)?;
        let start = FsBlock(extent.start.0 + (block.0 - extent.file_block.0));
        pass.geometry().block_disk_addr(start)
    }

    /// Reads and verifies a buffer of `count` blocks, which need not be neighbours on disk. If one
    /// of the blocks is not mapped or cannot be read, adds a finding and returns `None`.
    pub(crate) fn read<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        fork: OpenFork<'_>,
        blocks: BlockRun,
        kind: BlockKind,
    ) -> Option<(Vec<u8>, Evidence, DiskAddr)> {
        let OpenFork { inode, kind: fork } = fork;
        let BlockRun { block, count } = blocks;
        if !pass.take_reads(count.into()) {
            return None;
        }
        let block_size = pass.geometry().block_size as usize;
        let mut bytes = vec![0; block_size * count as usize];
        let mut first = None;
        for (index, part) in (0..).zip(bytes.chunks_exact_mut(block_size)) {
            let at = self.address(pass, FileBlock(block.0 + index))?;
            first = first.or(Some(at));
            if let Err(error) = pass.volume.read(at, part) {
                let place = inode
                    .place(pass.geometry())
                    .at_file_block(FileBlock(block.0 + index), fork == ForkKind::Attr);
                pass.findings.unreadable(kind.structure(), place, &error);
                return None;
            }
        }
        let at = first?;
        let evidence = match kind.verify(&bytes, at, &pass.volume.context()) {
            Ok(()) => Evidence::Sound,
            Err(corruption) => {
                let place =
                    inode.place(pass.geometry()).at_file_block(block, fork == ForkKind::Attr);
                let code = match fork {
                    ForkKind::Data => Code::of(&corruption),
                    ForkKind::Attr => Code::of_attribute(&corruption),
                };
                let mut finding = Finding::new(code, place, corruption.check().to_string());
                finding.place.disk_addr = Some(at);
                pass.findings.push(finding);
                Evidence::left_by(&corruption)
            }
        };
        (evidence != Evidence::None).then_some((bytes, evidence, at))
    }
}

/// Walks the map of a fork in format `Extents` or `Btree`. Returns `None` if nothing of it can be
/// read.
pub(crate) fn walk<T: Facts>(
    pass: &mut Pass<'_, T>,
    inode: &Inode<'_>,
    kind: ForkKind,
) -> Option<ForkMap> {
    let geometry = pass.volume.geometry();
    let is_realtime = kind == ForkKind::Data && inode.core.is_realtime();
    if is_realtime && !geometry.realtime.is_present() {
        let place = inode.place(geometry);
        let found = "the data is on a realtime device, which the volume does not have";
        pass.findings.push(Finding::new(Code::InodeFeature, place, found));
        pass.facts.gap(Gap::Claims);
        return None;
    }
    let rules = ExtentRules::of(&inode.core, kind, geometry);
    // The files of quota and of the realtime section are read by the checker.
    let has_dquots = quota::kind_of(pass.volume, inode.number()).is_some();
    let is_read = has_dquots || pass.volume.metadata.file(inode.number()).is_some();
    let keeps = kind == ForkKind::Attr || inode.file_type != FileType::Regular || is_read;
    let mut collected = Collected {
        rules,
        keeps,
        is_realtime,
        kind,
        map: ForkMap { is_whole: true, ..ForkMap::default() },
        count: 0,
        end: FileBlock(0),
        last: None,
        pass,
        inode,
    };
    let fork = inode.fork(kind);
    let expected = inode.core.fork_extents(kind);
    match inode.core.fork_format(kind) {
        Some(ForkFormat::Extents) => match ExtentList::decode(fork, expected) {
            Ok(list) => list.iter().for_each(|extent| collected.extent(&extent)),
            Err(check) => collected.problem(check),
        },
        Some(ForkFormat::Btree) => collected.btree(fork, inode.core.blocks),
        _ => unreachable!("the caller passes a fork with a map"),
    }
    let Collected { map, count, .. } = collected;
    if map.is_whole && count != expected {
        let place = inode.place(geometry);
        let found = format!("{expected} {}", noun(kind));
        let finding = Finding::new(Code::InodeNextents, place, found);
        pass.findings.push(finding.expected(count.to_string()));
    }
    if map.joinable > 0 {
        let place = inode.place(geometry);
        let found = format!("{} of {count} {} continue the one before", map.joinable, noun(kind));
        pass.findings.push(Finding::new(Code::MapJoinable, place, found));
    }
    if !map.is_whole {
        pass.facts.gap(Gap::Claims);
    }
    // Other extents were announced with their run of inodes.
    let is_late = has_dquots || inode.core.fork_format(kind) == Some(ForkFormat::Btree);
    if is_late && keeps && !is_realtime {
        announce::extents(pass.volume, &map.extents);
    }
    Some(map)
}

const fn noun(kind: ForkKind) -> &'static str {
    match kind {
        ForkKind::Data => "extents",
        ForkKind::Attr => "attribute extents",
    }
}

/// Returns whether `next` continues `last` in the file and on the device, so that one extent could
/// map the blocks of both. All programs that change a fork join such extents.
fn continues(last: &Extent, next: &Extent) -> bool {
    let length_blocks = u64::from(last.length_blocks) + u64::from(next.length_blocks);
    next.file_block == last.end()
        && last.start.0.checked_add(last.length_blocks.into()) == Some(next.start.0)
        && last.unwritten == next.unwritten
        && length_blocks <= u64::from(MAX_EXTENT_BLOCKS)
}

/// The state of a walk over the extents of a fork, with the map that it has collected so far.
struct Collected<'p, 'a, 'i, T> {
    pass: &'p mut Pass<'a, T>,
    inode: &'i Inode<'i>,
    rules: ExtentRules<'a>,
    keeps: bool,
    /// Whether the extents are in the realtime section.
    is_realtime: bool,
    kind: ForkKind,
    map: ForkMap,
    count: u64,
    end: FileBlock,
    /// The extent that was visited last.
    last: Option<Extent>,
}

impl<T: Facts> Collected<'_, '_, '_, T> {
    fn flags(&self) -> RmapFlags {
        match self.kind {
            ForkKind::Data => RmapFlags::empty(),
            ForkKind::Attr => RmapFlags::ATTR,
        }
    }

    fn problem(&mut self, check: ExtentCheck) {
        self.map.is_whole = false;
        let address = StructureAddress::Inode(self.inode.number());
        let corruption = Corruption::new(Structure::Extent, address, check);
        self.pass.findings.corrupt(&corruption, self.pass.volume.geometry());
    }

    fn extent(&mut self, extent: &Extent) {
        self.count += 1;
        if let Err(check) = extent.verify(&self.rules) {
            self.problem(check);
            if !matches!(check, ExtentCheck::Unwritten { .. }) {
                return;
            }
        }
        if extent.file_block < self.end {
            self.problem(ExtentCheck::Order { file_block: extent.file_block, end: self.end });
        }
        self.end = self.end.max(extent.end());
        // An extent must not cross a realtime group, so only those of the data device are judged.
        if !self.is_realtime && self.last.is_some_and(|last| continues(&last, extent)) {
            self.map.joinable += 1;
        }
        self.last = Some(*extent);
        self.map.blocks += u64::from(extent.length_blocks);
        self.claim(extent);
        if self.keeps {
            self.map.extents.push(*extent);
        }
    }

    /// Passes the owner of the blocks of an extent to the receiver of facts.
    fn claim(&mut self, extent: &Extent) {
        let geometry = self.pass.volume.geometry();
        let unwritten = if extent.unwritten { RmapFlags::UNWRITTEN } else { RmapFlags::empty() };
        let (flags, owner) = (self.flags() | unwritten, owner_of(self.inode.number()));
        let like = |group, start| Claim {
            offset: extent.file_block.0,
            flags,
            ..Claim::of(group, start, extent.length_blocks, owner)
        };
        if !self.is_realtime {
            if let Some((group, start)) = geometry.split_block(extent.start) {
                self.pass.claim(self.inode, &like(group, start));
            }
            return;
        }
        let Some(first) = geometry.realtime.split_block(extent.start) else { return };
        self.map.realtime_blocks += u64::from(extent.length_blocks);
        self.check_alignment(extent, first);
        let run = RealtimeRun { first, count: extent.length_blocks.into() };
        for claim in region::claims(run, like(AgNumber(0), AgBlock(0)), geometry) {
            self.pass.claim(self.inode, &claim);
        }
    }

    /// Reports an extent whose blocks have another place in their realtime extents than its file
    /// blocks have. Space is allocated by whole realtime extents.
    fn check_alignment(&mut self, extent: &Extent, first: RealtimeBlock) {
        let unit = u64::from(self.pass.geometry().realtime_extent_blocks.max(1));
        if first.block % unit == extent.file_block.0 % unit {
            return;
        }
        let place = self.inode.place(self.pass.geometry()).at_file_block(extent.file_block, false);
        let found = format!("file block {} at realtime block {}", extent.file_block.0, first.block);
        let finding = Finding::new(Code::RtAlign, place, found);
        self.pass.findings.push(finding.expected(format!("the same rest by {unit}")));
    }

    fn btree(&mut self, fork: &[u8], blocks: u64) {
        let geometry = self.pass.volume.geometry();
        let root = match ExtentRoot::decode(fork) {
            Ok(root) => root,
            Err(check) => return self.problem(check),
        };
        if let Err(check) = root.verify(geometry) {
            self.problem(check);
        }
        // The count of blocks in a damaged inode can be larger than the volume.
        let budget = blocks.clamp(1, geometry.data_blocks);
        if !self.pass.take_reads(0) {
            self.map.is_whole = false;
            return;
        }
        let space = TreeSpace {
            volume: self.pass.volume,
            group: Group::new(geometry, AgNumber(0)).expect("a volume has a first group"),
            owner: self.inode.number().0,
            budget,
        };
        let level = u32::from(root.level());
        let children = root.iter().map(|(key, child)| (key, child.0));
        let mut findings = self.pass.findings.take();
        let walk = TreeWalk::<Extents, _>::new(space, level, self, &mut findings);
        let is_whole = walk.walk_children(level - 1, children);
        self.put_back(findings);
        self.map.is_whole &= is_whole;
    }

    /// Puts `findings`, the findings of the walk over the btree itself, before the findings that
    /// the visitor of the records has made.
    fn put_back(&mut self, mut findings: Findings) {
        findings.append(self.pass.findings.take());
        *self.pass.findings = findings;
    }
}

impl<T: Facts> TreeVisitor<Extents> for Collected<'_, '_, '_, T> {
    fn block(&mut self, pointer: u64, _level: u32) {
        self.map.blocks += 1;
        self.pass.volume.reads.take(1);
        if let Some((group, block)) = self.pass.geometry().split_block(FsBlock(pointer)) {
            let claim = Claim {
                flags: self.flags() | RmapFlags::FORK_BTREE,
                ..Claim::of(group, block, 1, owner_of(self.inode.number()))
            };
            self.pass.claim(self.inode, &claim);
        }
    }

    fn record(&mut self, record: &Extent) {
        self.extent(record);
    }
}
