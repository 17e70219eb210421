//! Extended attributes: the fork, its leaves, remote values, and parent pointers.
//!
//! Owns: the checks across the blocks of one attribute fork, and the parent pointers of the volume.

use xfs_format::acl;
use xfs_format::attr::remote::RemoteBlock;
use xfs_format::attr::{AttrEntry, AttrFlags, AttrLeaf, AttrShortForm, AttrValue, Namespace};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::parent::Parent;
use xfs_format::{BlockKind, FileBlock, FormatVersion, StructureAddress};

use crate::code::Code;
use crate::dabtree::{self, DaBlock, DaFork, LeafVisitor};
use crate::facts::{Facts, Gap, ParentPointer};
use crate::finding::Finding;
use crate::fork::{BlockRun, ForkMap, OpenFork};
use crate::inode::Pass;
use crate::used_inode::Inode;

/// Checks the attributes of an inode, and reports its parent pointers as facts. `map` is `None` if
/// the map of the fork cannot be read.
pub(crate) fn check<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, map: Option<&ForkMap>) {
    match (inode.core.fork_format(ForkKind::Attr), map) {
        (None, _) => {}
        (Some(ForkFormat::Local), _) => short_form(pass, inode),
        (Some(_), Some(map)) if !map.extents.is_empty() => blocks(pass, inode, map),
        (Some(_), Some(map)) if map.is_whole => {}
        (Some(_), _) => pass.facts.gap(Gap::Parents),
    }
}

fn short_form<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>) {
    let geometry = pass.volume.geometry();
    let address = StructureAddress::Inode(inode.number());
    let form = match AttrShortForm::decode(inode.fork(ForkKind::Attr), address) {
        Ok(form) => form,
        Err(corruption) => {
            pass.findings.corrupt(&corruption, geometry);
            pass.facts.gap(Gap::Parents);
            return;
        }
    };
    if let Err(corruption) = form.verify() {
        pass.findings.corrupt(&corruption, geometry);
    }
    let mut names = Vec::new();
    for entry in form.entries() {
        match entry {
            Ok(entry) => {
                attribute(pass, inode, &entry, address);
                names.push((entry.namespace, entry.name));
            }
            // The verifier has reported it.
            Err(_) => pass.facts.gap(Gap::Parents),
        }
    }
    // Parent pointers may share a name: one file may have it in several directories.
    names.retain(|(namespace, _)| *namespace != Namespace::Parent);
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            twice(pass, inode, first.1);
        }
    }
}

fn twice<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, name: &[u8]) {
    let place = inode.place(pass.geometry());
    let found = format!("the attribute {}", name.escape_ascii());
    pass.findings.push(Finding::new(Code::AttrTwice, place, found));
}

/// Checks one attribute. If it is a parent pointer, reports it as a fact.
fn attribute<T: Facts>(
    pass: &mut Pass<'_, T>,
    inode: &Inode<'_>,
    entry: &AttrEntry<'_>,
    address: StructureAddress,
) {
    let geometry = pass.volume.geometry();
    match Parent::decode(entry, address) {
        Ok(Some(parent)) => {
            pass.facts.parent(&ParentPointer {
                child: inode.number(),
                directory: parent.inode,
                generation: parent.generation,
                name: parent.name,
            });
            return;
        }
        Ok(None) => {}
        Err(corruption) => {
            pass.findings.corrupt(&corruption, geometry);
            pass.facts.gap(Gap::Parents);
            return;
        }
    }
    if let (true, AttrValue::Local(value)) = (is_list(entry), entry.value)
        && let Err(corruption) = acl::decode(value, inode.number())
    {
        pass.findings.corrupt(&corruption, geometry);
    }
}

/// Returns whether an attribute holds an access control list.
fn is_list(entry: &AttrEntry<'_>) -> bool {
    entry.namespace == Namespace::Trusted
        && (entry.name == acl::ACCESS_NAME || entry.name == acl::DEFAULT_NAME)
}

fn blocks<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, map: &ForkMap) {
    let fork = DaFork { inode, map, kind: ForkKind::Attr, blocks_log: 0 };
    let mut leaves =
        AttrLeaves { fork, last: Vec::new(), last_hash: None, value_blocks: 0, knows_values: true };
    let walked = dabtree::walk(pass, fork, FileBlock(0), &mut leaves);
    if !walked.is_whole || !map.is_whole {
        pass.facts.gap(Gap::Parents);
        return;
    }
    let reached = walked.blocks + leaves.value_blocks;
    let mapped: u64 = map.extents.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    if leaves.knows_values && mapped > reached {
        let found = format!("{mapped} blocks of the attribute fork are mapped");
        let finding = Finding::new(Code::AttrUnreached, inode.place(pass.geometry()), found);
        pass.findings.push(finding.expected(format!("{reached} that attributes use")));
    }
}

/// An attribute value in blocks of its own, outside of the leaves.
struct RemoteValue<'e, 'v> {
    length_bytes: u32,
    entry: &'e AttrEntry<'e>,
    /// The bytes that were read, if the value itself is checked too.
    kept: &'v mut Option<Vec<u8>>,
}

fn keep(kept: &mut Option<Vec<u8>>, part: &[u8]) {
    if let Some(kept) = kept {
        kept.extend_from_slice(part);
    }
}

/// The visitor of the leaves of an attribute fork.
struct AttrLeaves<'a> {
    fork: DaFork<'a>,
    /// The attributes read so far whose hash is `last_hash`. An attribute that is stored twice is
    /// found among them.
    last: Vec<(Namespace, Vec<u8>)>,
    last_hash: Option<u32>,
    /// The number of blocks that hold remote values.
    value_blocks: u64,
    /// Whether `value_blocks` has the blocks of all values. An attribute that was not finished
    /// before a crash does not state its blocks.
    knows_values: bool,
}

impl<T: Facts> LeafVisitor<T> for AttrLeaves<'_> {
    fn leaf(&mut self, pass: &mut Pass<'_, T>, leaf: &DaBlock) -> Option<(u32, u32)> {
        let inode = self.fork.inode;
        let address = StructureAddress::Attr(inode.number(), leaf.block);
        let block = AttrLeaf::decode(&leaf.bytes, address).ok()?;
        self.check_free(pass, leaf);
        let incomplete = block
            .table()
            .iter()
            .filter(|entry| entry.flags & AttrFlags::INCOMPLETE.bits() != 0)
            .count();
        if incomplete > 0 {
            let found = format!("{incomplete} attributes that were not finished");
            let place = self.fork.place(pass, leaf.block);
            pass.findings.push(Finding::new(Code::AttrIncomplete, place, found));
            self.knows_values = false;
        }
        let live = block
            .table()
            .iter()
            .filter(|entry| entry.flags & AttrFlags::INCOMPLETE.bits() == 0)
            .map(|entry| entry.hash.get());
        for (hash, entry) in live.zip(block.entries()) {
            let Ok(entry) = entry else {
                // The verifier has reported it.
                pass.facts.gap(Gap::Parents);
                self.knows_values = false;
                continue;
            };
            attribute(pass, inode, &entry, address);
            self.check_hash(pass, hash, &entry, address);
            self.check_twice(pass, hash, &entry);
            if let AttrValue::Remote { first_block, length_bytes } = entry.value {
                self.value(pass, first_block, length_bytes, &entry);
            }
        }
        block.hash_range()
    }
}

impl AttrLeaves<'_> {
    /// Checks that no free range of a leaf overlaps the header of the leaf. Kernels before 7.0 may
    /// leave a free range over the table of entries, so that is not a finding.
    fn check_free<T: Facts>(&self, pass: &mut Pass<'_, T>, leaf: &DaBlock) {
        let address = StructureAddress::Attr(self.fork.inode.number(), leaf.block);
        let Ok(decoded) = AttrLeaf::decode(&leaf.bytes, address) else { return };
        for free in decoded.free_ranges() {
            let (base, size) = (free.base.get(), free.size.get());
            if size != 0 && usize::from(base) < decoded.header_bytes() {
                let place = self.fork.place(pass, leaf.block);
                let found = format!("{size} free bytes at byte {base}, over the header");
                pass.findings.push(Finding::new(Code::AttrFree, place, found));
            }
        }
    }

    /// Compares the stored hash of a parent pointer with the hash of its name and directory. The
    /// verifier of a leaf does not check this hash.
    fn check_hash<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        hash: u32,
        entry: &AttrEntry<'_>,
        address: StructureAddress,
    ) {
        if let Ok(Some(parent)) = Parent::decode(entry, address)
            && parent.hash() != hash
        {
            let place = self.fork.inode.place(pass.geometry());
            let finding = Finding::new(
                Code::AttrOrder,
                place,
                format!("the parent pointer {} has hash {hash:#010x}", parent.name.escape_ascii()),
            );
            pass.findings.push(finding.expected(format!("{:#010x}", parent.hash())));
        }
    }

    fn check_twice<T: Facts>(&mut self, pass: &mut Pass<'_, T>, hash: u32, entry: &AttrEntry<'_>) {
        if self.last_hash != Some(hash) {
            self.last.clear();
            self.last_hash = Some(hash);
        }
        if entry.namespace == Namespace::Parent {
            return;
        }
        if self
            .last
            .iter()
            .any(|(namespace, name)| *namespace == entry.namespace && name.as_slice() == entry.name)
        {
            twice(pass, self.fork.inode, entry.name);
        }
        self.last.push((entry.namespace, entry.name.to_vec()));
    }

    /// Checks a remote value. If it is an access control list, also checks the list.
    fn value<T: Facts>(
        &mut self,
        pass: &mut Pass<'_, T>,
        first: FileBlock,
        length_bytes: u32,
        entry: &AttrEntry<'_>,
    ) {
        let mut value = is_list(entry).then(Vec::new);
        let Some(blocks) =
            self.remote(pass, first, RemoteValue { length_bytes, entry, kept: &mut value })
        else {
            self.knows_values = false;
            return;
        };
        self.value_blocks += blocks;
        let number = self.fork.inode.number();
        if let Some(Err(corruption)) = value.map(|value| acl::decode(&value, number)) {
            pass.findings.corrupt(&corruption, pass.volume.geometry());
        }
    }

    /// Reads the blocks of a remote value. Returns their number, or `None` if the value is not
    /// whole.
    fn remote<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        first: FileBlock,
        value: RemoteValue<'_, '_>,
    ) -> Option<u64> {
        let RemoteValue { length_bytes, entry, kept } = value;
        let inode = self.fork.inode;
        let problem = |pass: &mut Pass<'_, T>, block: FileBlock, found: String| {
            let place = self.fork.place(pass, block);
            let found = format!("value of {}: {found}", entry.name.escape_ascii());
            pass.findings.push(Finding::new(Code::AttrRemote, place, found));
        };
        let mut offset = 0;
        let mut block = first;
        while offset < length_bytes {
            let fork = OpenFork { inode, kind: ForkKind::Attr };
            let run = BlockRun { block, count: 1 };
            let read = self.fork.map.read(pass, fork, run, BlockKind::AttrRemote);
            let Some((bytes, ..)) = read else {
                if self.fork.map.find(block).is_none() {
                    problem(pass, block, format!("block {} is not mapped", block.0));
                }
                return None;
            };
            // On a v4 volume the blocks of a value have no header to check.
            if pass.geometry().version == FormatVersion::V4 {
                let length = RemoteBlock::capacity(pass.geometry()).min(length_bytes - offset);
                keep(kept, bytes.get(..length as usize).unwrap_or(&bytes));
                offset += length;
                block = FileBlock(block.0 + 1);
                continue;
            }
            let address = StructureAddress::Attr(inode.number(), block);
            let Ok(part) = RemoteBlock::decode(&bytes, address) else { return None };
            if part.owner() != inode.number() {
                let place = self.fork.place(pass, block);
                let finding = Finding::new(Code::AttrOwner, place, part.owner().to_string());
                pass.findings.push(finding.expected(inode.number().to_string()));
            }
            let length = u32::try_from(part.part().len()).expect("a part is shorter than a block");
            let capacity = RemoteBlock::capacity(pass.geometry());
            if part.offset() != offset || length != capacity.min(length_bytes - offset) {
                let found = format!("{length} bytes from offset {}", part.offset());
                problem(pass, block, format!("{found}, expected offset {offset}"));
                return None;
            }
            keep(kept, part.part());
            offset += length;
            block = FileBlock(block.0 + 1);
        }
        Some(block.0 - first.0)
    }
}
