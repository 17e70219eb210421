//! The comparison of both sides of a balance that does not hold, fact by fact.

use xfs_format::directory::EntryTypes;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgInode, AgNumber, FileBlock, Geometry, InodeNumber};

use super::{Parenthood, Weighted};
use crate::cause::{Doubt, Judge};
use crate::code::Code;
use crate::facts::{Claim, Gap, Owner, UsedInode};
use crate::finding::{Finding, Place};
use crate::region::Region;
use crate::sums::{METADATA_LINK, PINNED_LINKS, link_type};

/// The comparison of the lists of facts that the second pass has collected.
pub(super) struct Explain<'a> {
    pub(super) geometry: &'a Geometry,
    pub(super) judge: Judge<'a>,
}

/// Compares two sorted lists. Returns the members that only the left list has, and those that only
/// the right list has.
fn differences<M: Ord + Clone>(mut left: Vec<M>, mut right: Vec<M>) -> (Vec<M>, Vec<M>) {
    left.sort_unstable();
    right.sort_unstable();
    let (mut only_left, mut only_right) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return (only_left, only_right),
            (Some(a), Some(b)) if a == b => {
                left.next();
                right.next();
            }
            (Some(a), Some(b)) if a < b => only_left.extend(left.next()),
            (Some(_), None) => only_left.extend(left.next()),
            (_, Some(_)) => only_right.extend(right.next()),
        }
    }
}

impl Explain<'_> {
    fn push(&mut self, finding: Finding) {
        self.judge.findings.push(finding);
    }

    fn judge(&mut self, finding: Finding, doubt: Doubt<'_>) {
        self.judge.judge(finding, doubt);
    }

    /// Goes through the blocks of each region, and reports blocks with a wrong number of owners.
    /// Each of `parts` adds its weight to every block that it covers. The weights of a block add up
    /// to 0 if it has as many owners as it should.
    pub(super) fn coverage(&mut self, mut parts: Vec<Weighted>) {
        parts.sort_by_key(|part| (part.claim.region, part.claim.start, part.claim.end()));
        for region in parts.chunk_by(|a, b| a.claim.region == b.claim.region) {
            self.sweep(region);
        }
    }

    fn sweep(&mut self, parts: &[Weighted]) {
        let mut edges: Vec<u32> =
            parts.iter().flat_map(|part| [part.claim.start.0, part.claim.end()]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut next = 0;
        let mut active: Vec<&Weighted> = Vec::new();
        let mut open: Option<(Imbalance, u32)> = None;
        for &edge in &edges {
            active.retain(|part| part.claim.end() > edge);
            while let Some(part) = parts.get(next).filter(|part| part.claim.start.0 <= edge) {
                active.push(part);
                next += 1;
            }
            let here = Imbalance::of(&active);
            let is_same =
                matches!((&open, &here), (Some((before, _)), Some(here)) if before == here);
            if is_same {
                continue;
            }
            if let Some((imbalance, start)) = open.take() {
                self.imbalance(parts, &imbalance, start..edge);
            }
            open = here.map(|imbalance| (imbalance, edge));
        }
    }

    fn imbalance(
        &mut self,
        parts: &[Weighted],
        imbalance: &Imbalance,
        range: std::ops::Range<u32>,
    ) {
        let Some(region) = parts.first().map(|part| part.claim.region) else { return };
        let codes = SpaceCodes::of(region);
        let place = region.place(range.start, self.geometry);
        let blocks = format!("{} blocks from block {}", range.len(), range.start);
        let owners = imbalance.owners.join(", ");
        let counted = imbalance.counted;
        let all_claims = [Gap::GroupClaims(region), Gap::Claims];
        let has_too_many = imbalance.owners.len() as u64 > counted;
        if imbalance.owners.is_empty() {
            // Blocks that seem to be leaked may belong to an owner that could not be read.
            let found = format!("{blocks} have no owner");
            let finding = Finding::new(codes.leaked, place, found).expected("one owner");
            self.judge(finding, Doubt::of(&all_claims));
            return;
        }
        let sides = |finding: Finding| {
            finding
                .witness("the reference counts", format!("{counted} owners"))
                .witness("the claims of the owners", owners.as_str())
        };
        if imbalance.is_count_of_data {
            let found = format!("{blocks} are counted {counted} times");
            let expected = format!("{}: {owners}", imbalance.owners.len());
            let finding = sides(Finding::new(codes.count, place, found).expected(expected));
            // Claims that are not known can only raise the number of owners. Records that are not
            // known can only raise the number that is counted.
            let records = Gap::Refcounts(region);
            let gaps: &[Gap] = if has_too_many { &[records] } else { &[records, Gap::Claims] };
            self.judge(finding, Doubt::of(gaps));
        } else if has_too_many {
            let found = format!("{blocks} belong to {owners}");
            let finding = Finding::new(codes.crosslinked, place, found);
            self.push(sides(finding.expected(format!("{counted} owners"))));
        } else {
            let found = format!("{blocks} are counted {counted} times");
            let finding = Finding::new(codes.count, place, found);
            let finding = sides(finding.expected(format!("the owner {owners}")));
            self.judge(finding, Doubt::of(&all_claims));
        }
    }

    pub(super) fn reverse_map(&mut self, owned: Vec<Claim>, mapped: Vec<Claim>) {
        let mut parts: Vec<(Claim, i64)> = owned.into_iter().map(|claim| (claim, 1)).collect();
        parts.extend(mapped.into_iter().map(|claim| (claim, -1)));
        let line = |claim: &Claim| {
            (claim.region, claim.owner_number(), claim.flags.bits(), claim.diagonal())
        };
        parts.sort_by_key(|(claim, _)| (line(claim), claim.start));
        for parts in parts.chunk_by(|(a, _), (b, _)| line(a) == line(b)) {
            self.mapping_line(parts);
        }
    }

    /// Compares the claims of one owner with the records of the reverse map, and reports the
    /// differences. All of `parts` have the same difference of offset and block (`diagonal`).
    fn mapping_line(&mut self, parts: &[(Claim, i64)]) {
        let Some((first, _)) = parts.first() else { return };
        let mut edges: Vec<(u32, i64)> = parts
            .iter()
            .flat_map(|(claim, weight)| [(claim.start.0, *weight), (claim.end(), -*weight)])
            .collect();
        edges.sort_unstable();
        let (mut depth, mut start) = (0, 0);
        for edges in edges.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(edge, _)) = edges.first() else { continue };
            let change: i64 = edges.iter().map(|(_, weight)| weight).sum();
            if change == 0 {
                continue;
            }
            if depth != 0 {
                self.mapping_difference(first, start..edge, depth);
            }
            depth += change;
            start = edge;
        }
    }

    fn mapping_difference(&mut self, like: &Claim, range: std::ops::Range<u32>, depth: i64) {
        let region = like.region;
        let codes = SpaceCodes::of(region);
        let mut place = region.place(range.start, self.geometry);
        let offset = like.diagonal().wrapping_add(range.start.into());
        if let Owner::Used(RmapOwner::Inode(inode)) = like.owner {
            place = place.with_inode(inode);
            if like.has_offsets() {
                let is_attribute = like.flags.contains(RmapFlags::ATTR);
                place = place.at_file_block(FileBlock(offset), is_attribute);
            }
        }
        let blocks = format!("{} blocks from block {}", range.len(), range.start);
        let owner = shown_owner(like, range.start);
        if depth > 0 {
            let found = format!("{blocks} of {owner} are not in the reverse map");
            let finding = Finding::new(codes.unmapped, place, found)
                .expected("a record")
                .witness("the owner's own structure", owner.as_str())
                .witness("the reverse map", "no record");
            self.judge(finding, Doubt::of(&[Gap::ReverseMap(region)]));
        } else {
            let found = format!("{blocks} are mapped for {owner}, which does not claim them");
            let finding = Finding::new(codes.mapped, place, found)
                .expected("no record")
                .witness("a record of the reverse map", owner.as_str())
                .witness("the owner's own structure", "no claim");
            let gaps = [Gap::GroupClaims(region), Gap::Claims];
            self.judge(finding, Doubt { gaps: &gaps, near: place.inode });
        }
    }

    pub(super) fn free_space(
        &mut self,
        by_block: Vec<(AgNumber, AgBlock, u32)>,
        by_size: Vec<(AgNumber, AgBlock, u32)>,
    ) {
        let (only_block, only_size) = differences(by_block, by_size);
        let sides = [(only_block, "by block", "by size"), (only_size, "by size", "by block")];
        for (records, side, other) in sides {
            for (group, start, count) in records {
                let place = Place::of_block(group, start, self.geometry);
                let found = format!("{count} blocks from block {} are free only {side}", start.0);
                let record = format!("{count} blocks from block {}", start.0);
                let finding = Finding::new(Code::BnoDiffers, place, found)
                    .expected("the same record in both btrees")
                    .witness(format!("the btree of free space {side}"), record)
                    .witness(format!("the btree of free space {other}"), "no such record");
                self.judge(finding, Doubt::of(&[Gap::FreeSpace(group)]));
            }
        }
    }

    pub(super) fn free_inodes(
        &mut self,
        chunks: Vec<(AgNumber, InodeChunk)>,
        free: Vec<(AgNumber, InodeChunk)>,
    ) {
        let key = |(group, chunk): (AgNumber, InodeChunk)| {
            (group, chunk.start, chunk.holes, chunk.free_count, chunk.free)
        };
        let (only_all, only_free) =
            differences(chunks.into_iter().map(key).collect(), free.into_iter().map(key).collect());
        let starts = |records: &[(AgNumber, AgInode, u16, u8, u64)]| -> Vec<(AgNumber, AgInode)> {
            records.iter().map(|record| (record.0, record.1)).collect()
        };
        let mut all: Vec<_> = starts(&only_all);
        all.extend(starts(&only_free));
        all.sort_unstable();
        all.dedup();
        for (group, start) in all {
            let mask = |records: &[(AgNumber, AgInode, u16, u8, u64)]| {
                let record = records.iter().find(|record| (record.0, record.1) == (group, start));
                record.map_or_else(
                    || "no free inode".to_owned(),
                    |record| format!("{} free inodes, mask {:#018x}", record.3, record.4),
                )
            };
            let place = Place::of_inode(self.geometry.join_inode(group, start), self.geometry);
            let (found, expected) = (mask(&only_free), mask(&only_all));
            let finding = Finding::new(Code::FinoDiffers, place, found.as_str())
                .expected(expected.as_str())
                .witness("the free-inode btree", found)
                .witness("the inode btree", expected);
            self.judge(finding, Doubt::of(&[Gap::FreeInodes(group)]));
        }
    }

    pub(super) fn links(
        &mut self,
        mut links: Vec<(InodeNumber, u64, InodeNumber)>,
        inodes: Vec<UsedInode>,
    ) {
        links.sort_unstable();
        let mut inodes = inodes;
        inodes.sort_unstable_by_key(|inode| inode.number);
        for inode in &inodes {
            let first = links.partition_point(|link| link.0 < inode.number);
            let rest = links.get(first..).unwrap_or_default();
            let count = rest.partition_point(|link| link.0 == inode.number);
            self.links_of(inode, rest.get(..count).unwrap_or_default());
        }
        for named in links.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(child, _, directory)) = named.first() else { continue };
            let is_used = inodes.binary_search_by_key(&child, |inode| inode.number).is_ok();
            if is_used {
                continue;
            }
            let place = Place::of_inode(directory, self.geometry);
            let found = format!("{} of {child}", counted_noun(named.len() as u64, "name"));
            let finding = Finding::new(Code::DirTarget, place, found)
                .expected("an inode in use")
                .witness("the entry", format!("{child}"))
                .witness("the inode btree", "not in use");
            let group = self.geometry.split_inode(child).map(|(group, _)| group);
            let gap = group.map(Gap::Inodes);
            self.judge(finding, Doubt::near(child, gap.as_slice()));
        }
    }

    fn links_of(&mut self, inode: &UsedInode, links: &[(InodeNumber, u64, InodeNumber)]) {
        let own = link_type(inode.entry_type, inode.is_metadata);
        let has_types = self.geometry.directory_form.types == EntryTypes::Stored;
        let wrong = links.iter().filter(|(_, entry, _)| has_types && *entry != own);
        for (_, other, directory) in wrong {
            if (own ^ other) & METADATA_LINK != 0 {
                self.push(self.mixed(inode, *directory));
                continue;
            }
            let (own, other) = (own & !METADATA_LINK, other & !METADATA_LINK);
            let place = Place::of_inode(*directory, self.geometry);
            let found = format!("type {other} in a name of {}", inode.number);
            let finding = Finding::new(Code::DirType, place, found)
                .expected(own.to_string())
                .witness("the entry", format!("type {other}"))
                .witness("the inode", format!("type {own}"));
            self.push(finding);
        }
        let (stated, counted) = (u64::from(inode.links), links.len() as u64);
        if inode.links != PINNED_LINKS && stated != counted {
            let place = Place::of_inode(inode.number, self.geometry);
            let finding = Finding::new(Code::InodeLinks, place, counted_noun(stated, "link"))
                .expected(counted.to_string())
                .witness("the inode", counted_noun(stated, "link"))
                .witness("the directories", counted_noun(counted, "name"));
            // Names that are not known can only raise the count.
            let gaps: &[Gap] = if counted > stated { &[] } else { &[Gap::Names] };
            self.judge(finding, Doubt::of(gaps));
        }
    }

    /// Returns the finding that a name leads from the metadata directory to an inode that does not
    /// belong to it, or the reverse.
    fn mixed(&self, inode: &UsedInode, directory: InodeNumber) -> Finding {
        let place = Place::of_inode(directory, self.geometry);
        let (number, is_metadata) = (inode.number, inode.is_metadata);
        let found = match is_metadata {
            true => format!("a name of {number}, an inode of the metadata directory"),
            false => format!("a name of {number}, an inode outside of the metadata directory"),
        };
        let kind = |is_metadata| if is_metadata { "metadata" } else { "not metadata" };
        Finding::new(Code::MetaMixed, place, found)
            .expected("names of inodes of the same kind only")
            .witness("the directory", kind(!is_metadata))
            .witness("the inode", kind(is_metadata))
    }

    pub(super) fn directories(
        &mut self,
        mut named: Vec<(InodeNumber, InodeNumber)>,
        mut own: Vec<(InodeNumber, InodeNumber)>,
    ) {
        named.sort_unstable();
        own.sort_unstable();
        for (directory, parent) in own {
            let first = named.partition_point(|pair| pair.0 < directory);
            let rest = named.get(first..).unwrap_or_default();
            let count = rest.partition_point(|pair| pair.0 == directory);
            let names = rest.get(..count).unwrap_or_default();
            let place = Place::of_inode(directory, self.geometry);
            match names {
                [] => {
                    let found = format!("no name; \"..\" is {parent}");
                    let finding = Finding::new(Code::DirUnreachable, place, found)
                        .expected("one name")
                        .witness("the entry \"..\"", parent.to_string())
                        .witness("the directories", "no name");
                    self.judge(finding, Doubt::near(parent, &[Gap::Names]));
                }
                [(_, by_name)] if *by_name == parent => {}
                [(_, by_name)] => {
                    let found = format!("\"..\" is {parent}");
                    let finding = Finding::new(Code::DirParent, place, found)
                        .expected(by_name.to_string())
                        .witness("the entry \"..\"", parent.to_string())
                        .witness("the name", format!("in {by_name}"));
                    self.push(finding);
                }
                several => {
                    let places: Vec<_> = several.iter().map(|(_, at)| at.to_string()).collect();
                    let found = format!("names in {}", places.join(", "));
                    self.push(Finding::new(Code::DirTwice, place, found).expected("one name"));
                }
            }
        }
    }

    pub(super) fn parents(&mut self, names: Vec<Parenthood>, pointers: Vec<Parenthood>) {
        let (only_name, only_pointer) = differences(names, pointers);
        for (child, directory, _, name) in only_name {
            let place = Place::of_inode(child, self.geometry);
            let name = name.escape_ascii();
            let finding =
                Finding::new(Code::ParentMissing, place, format!("{name} in {directory}"))
                    .expected("a parent pointer")
                    .witness(format!("the entry in {directory}"), format!("{name}, {child}"))
                    .witness("the parent pointers", "no such name");
            self.judge(finding, Doubt::near(child, &[Gap::Parents]));
        }
        for (child, directory, generation, name) in only_pointer {
            let place = Place::of_inode(child, self.geometry);
            let name = name.escape_ascii();
            let pointer = format!("{name} in {directory}, generation {generation}");
            let finding =
                Finding::new(Code::ParentExtra, place, format!("a parent pointer {pointer}"))
                    .expected("a name")
                    .witness("the parent pointer", pointer)
                    .witness(format!("the entries of {directory}"), "no such name");
            self.judge(finding, Doubt::near(directory, &[Gap::Names]));
        }
    }
}

/// The codes of differences between the owners of blocks, by the kind of region.
struct SpaceCodes {
    leaked: Code,
    crosslinked: Code,
    count: Code,
    /// The code for blocks that the reverse map lacks.
    unmapped: Code,
    /// The code for blocks that only the reverse map has.
    mapped: Code,
}

impl SpaceCodes {
    const fn of(region: Region) -> Self {
        match region {
            Region::Data(_) => Self {
                leaked: Code::SpaceLeaked,
                crosslinked: Code::SpaceCrosslinked,
                count: Code::RefcCount,
                unmapped: Code::RmapMissing,
                mapped: Code::RmapExtra,
            },
            Region::Realtime(_) => Self {
                leaked: Code::RtLeaked,
                crosslinked: Code::RtCrosslinked,
                count: Code::RtRefcount,
                unmapped: Code::RtRmapMissing,
                mapped: Code::RtRmapExtra,
            },
        }
    }
}

/// Blocks that have more or fewer owners than they should have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Imbalance {
    owners: Vec<String>,
    /// The number of owners that the blocks should have: that of their reference count record, or 1
    /// without a record.
    counted: u64,
    /// Whether all owners are contents of files, and the blocks have several owners or a reference
    /// count above 1.
    is_count_of_data: bool,
}

impl Imbalance {
    fn of(active: &[&Weighted]) -> Option<Self> {
        let weight: i64 = active.iter().map(|part| part.weight).sum();
        if weight == 0 {
            return None;
        }
        let claims: Vec<_> = active.iter().filter(|part| !part.is_count).collect();
        let counted: i64 =
            -active.iter().filter(|part| part.is_count).map(|part| part.weight).sum::<i64>();
        let is_data = |claim: &Claim| claim.has_offsets() && !claim.flags.contains(RmapFlags::ATTR);
        let all_are_data = claims.iter().all(|part| is_data(&part.claim));
        let mut owners: Vec<_> =
            claims.iter().map(|part| shown_owner(&part.claim, part.claim.start.0)).collect();
        owners.sort();
        Some(Self {
            is_count_of_data: all_are_data && (counted > 1 || claims.len() > 1),
            owners,
            counted: counted.try_into().unwrap_or_default(),
        })
    }
}

/// Returns the owner of block `block` in words, for a finding.
fn shown_owner(claim: &Claim, block: u32) -> String {
    match claim.owner {
        Owner::Free => "free space".to_owned(),
        Owner::Used(RmapOwner::Inode(inode)) => {
            let fork = if claim.flags.contains(RmapFlags::ATTR) { "attribute" } else { "data" };
            if !claim.has_offsets() {
                return format!("{inode} {fork} btree");
            }
            let offset = claim.diagonal().wrapping_add(block.into());
            let state = if claim.flags.contains(RmapFlags::UNWRITTEN) { " unwritten" } else { "" };
            format!("{inode} {fork}{state} block {offset}")
        }
        Owner::Used(RmapOwner::Volume) => "the headers".to_owned(),
        Owner::Used(RmapOwner::Log) => "the log".to_owned(),
        Owner::Used(RmapOwner::Group) => "the group".to_owned(),
        Owner::Used(RmapOwner::InodeBtree) => "the inode btrees".to_owned(),
        Owner::Used(RmapOwner::Inodes) => "inode chunks".to_owned(),
        Owner::Used(RmapOwner::RefcountBtree) => "the reference counts".to_owned(),
        Owner::Used(RmapOwner::Staging) => "copy-on-write".to_owned(),
    }
}

/// Returns a count with its noun, such as "1 name" or "2 names".
fn counted_noun(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
