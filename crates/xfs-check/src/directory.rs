//! A directory: its names, its hash index, and its free-space index.
//!
//! Owns: the checks across the blocks of one directory, and the names of the volume. Does **not**
//! own: whether the named inodes exist and have the right link counts; the balances compare that
//! (`sums.rs`).

use xfs_format::directory::{
    Cookie, DataBlock, DirectoryCheck, Entry, FreeBlock, LeafBlock, NULL_OFFSET, ShortForm,
    free_start, index_start, name_hash,
};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::{BlockKind, Corruption, FileBlock, InodeNumber, Structure, StructureAddress};

use crate::blocks::Evidence;
use crate::code::Code;
use crate::dabtree::{self, DaBlock, DaFork, LeafVisitor};
use crate::facts::{Facts, Gap, Name};
use crate::finding::{Finding, Place};
use crate::fork::{BlockRun, ForkMap, OpenFork};
use crate::hash::{Keyed, Tag};
use crate::inode::Pass;
use crate::used_inode::Inode;

/// Checks a directory, and reports its names as facts.
pub(crate) fn check<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, map: &ForkMap) {
    if inode.core.data_format == ForkFormat::Local {
        short_form(pass, inode);
        return;
    }
    if !pass.take_reads(0) {
        pass.facts.gap(Gap::Names);
        return;
    }
    let mut directory = Directory {
        inode,
        map,
        hash: pass.volume.hash,
        entries: IndexSum::default(),
        index: IndexSum::default(),
        best: Vec::new(),
        parent: None,
        same_hash: Vec::new(),
        is_whole: map.is_whole,
    };
    directory.data(pass);
    if !directory.is_block_form(pass) {
        directory.indexes(pass);
    }
    directory.finish(pass);
}

/// Passes the facts of one entry to the receiver of facts.
fn report<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, entry: &Entry<'_>) {
    pass.facts.name(&Name {
        directory: inode.number(),
        generation: inode.core.generation,
        child: entry.inode,
        entry_type: entry.entry_type,
        is_metadata: inode.is_metadata(),
        name: entry.name,
    });
}

/// Returns whether the volume can have an inode with the number in an entry. If it cannot, the
/// verifier of the block reports that.
fn is_possible<T: Facts>(pass: &Pass<'_, T>, inode: InodeNumber) -> bool {
    pass.geometry().split_inode(inode).is_some()
}

fn short_form<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>) {
    let geometry = pass.volume.geometry();
    let address = StructureAddress::Inode(inode.number());
    let fork = inode.fork(ForkKind::Data);
    let length = usize::try_from(inode.core.size).unwrap_or(usize::MAX).min(fork.len());
    let bytes = fork.get(..length).unwrap_or(fork);
    let form = match ShortForm::decode(bytes, address, geometry.directory_form) {
        Ok(form) => form,
        Err(corruption) => {
            pass.findings.corrupt(&corruption, geometry);
            pass.facts.gap(Gap::Names);
            return;
        }
    };
    if let Err(corruption) = form.verify(geometry) {
        pass.findings.corrupt(&corruption, geometry);
    }
    if is_possible(pass, form.parent()) {
        pass.facts.directory(&inode.links_to(form.parent()));
    } else {
        pass.facts.gap(Gap::Names);
    }
    for entry in form.entries() {
        match entry {
            Ok(entry) if is_possible(pass, entry.inode) => report(pass, inode, &entry),
            // The verifier has reported it.
            _ => pass.facts.gap(Gap::Names),
        }
    }
    for double in form.duplicate_names() {
        let corruption = Corruption::new(Structure::Directory, address, double.check());
        pass.findings.corrupt(&corruption, geometry);
    }
}

/// The sum of the hashes of some entries, and the number of these entries. A directory and its hash
/// index must have the same sum and the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IndexSum {
    sum: u128,
    count: u64,
}

impl IndexSum {
    fn add(&mut self, hash: &Keyed, name_hash: u32, cookie: Cookie) {
        let member = hash.numbers(Tag::Index, [name_hash.into(), cookie.0.into()]);
        self.sum = self.sum.wrapping_add(member);
        self.count += 1;
    }
}

/// A directory whose entries are in blocks, and the state of its check.
struct Directory<'a> {
    inode: &'a Inode<'a>,
    map: &'a ForkMap,
    hash: Keyed,
    entries: IndexSum,
    index: IndexSum,
    /// The length of the longest free record of each data block; [`NULL_OFFSET`] where there is no
    /// block.
    best: Vec<u16>,
    parent: Option<InodeNumber>,
    /// The entries whose hash another entry has too: hash and position of each.
    same_hash: Vec<(u32, Cookie)>,
    /// Whether all blocks could be read so far.
    is_whole: bool,
}

impl Directory<'_> {
    fn place<T: Facts>(&self, pass: &Pass<'_, T>, block: FileBlock) -> Place {
        let mut place = self.inode.place(pass.geometry()).at_file_block(block, false);
        place.disk_addr = self.map.address(pass, block).or(place.disk_addr);
        place
    }

    fn problem<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        block: FileBlock,
        code: Code,
        found: String,
    ) {
        pass.findings.push(Finding::new(code, self.place(pass, block), found));
    }

    fn lose<T: Facts>(&mut self, pass: &mut Pass<'_, T>) {
        self.is_whole = false;
        pass.facts.gap(Gap::Names);
    }

    /// Returns the directory blocks of a section of the fork that are mapped at least in part. They
    /// are numbered from the start of the section.
    fn blocks_of_section<T: Facts>(
        &self,
        pass: &Pass<'_, T>,
        section: std::ops::Range<FileBlock>,
    ) -> Vec<u64> {
        let log = pass.geometry().directory_block_log;
        let mut blocks: Vec<u64> = Vec::new();
        for extent in &self.map.extents {
            let start = extent.file_block.0.max(section.start.0);
            let end = extent.end().0.min(section.end.0);
            if start >= end {
                continue;
            }
            let first = (start - section.start.0) >> log;
            let last = (end - 1 - section.start.0) >> log;
            let next = blocks.last().map_or(first, |last| first.max(last + 1));
            blocks.extend(next..=last);
        }
        blocks
    }

    /// Reads the data blocks: their names, and the length of the longest free record of each block.
    fn data<T: Facts>(&mut self, pass: &mut Pass<'_, T>) {
        let geometry = pass.volume.geometry();
        let log = geometry.directory_block_log;
        let section = FileBlock(0)..index_start(geometry);
        let blocks = self.blocks_of_section(pass, section);
        let expected = blocks.last().map_or(0, |last| last + 1);
        let size = expected << log << geometry.block_log;
        if self.map.is_whole && self.inode.core.size != size {
            let place = self.inode.place(geometry);
            let finding = Finding::new(Code::DirSize, place, self.inode.core.size.to_string());
            pass.findings.push(finding.expected(size.to_string()));
        }
        for number in blocks {
            if !pass.take_reads(0) {
                self.lose(pass);
                break;
            }
            let block = FileBlock(number << log);
            self.best.resize(usize::try_from(number).expect("a block number fits"), NULL_OFFSET);
            let best = self.data_block(pass, block);
            self.best.push(best.unwrap_or(NULL_OFFSET));
        }
        match self.parent {
            Some(parent) => pass.facts.directory(&self.inode.links_to(parent)),
            None => self.lose(pass),
        }
    }

    /// Reads one data block. Returns the length of its longest free record; `None` if unusable.
    fn data_block<T: Facts>(&mut self, pass: &mut Pass<'_, T>, block: FileBlock) -> Option<u16> {
        let geometry = pass.volume.geometry();
        let count = 1 << geometry.directory_block_log;
        let fork = OpenFork { inode: self.inode, kind: ForkKind::Data };
        let read = self.map.read(pass, fork, BlockRun { block, count }, BlockKind::DirectoryData);
        let Some((bytes, evidence, _)) = read else {
            let last = FileBlock(block.0 + u64::from(count) - 1);
            if self.map.find(block).is_none() || self.map.find(last).is_none() {
                let found = "only a part of the directory block is mapped".to_owned();
                self.problem(pass, block, Code::DirForm, found);
            }
            self.lose(pass);
            return None;
        };
        let address = StructureAddress::Data(self.inode.number(), block);
        let start = block.0 << geometry.block_log;
        let data = match DataBlock::decode(&bytes, start, address, geometry.directory_form) {
            Ok(data) => data,
            Err(corruption) => {
                pass.findings.corrupt(&corruption, geometry);
                self.lose(pass);
                return None;
            }
        };
        let owner = match data.owner() {
            // A block of a v4 volume names its directory only by the entry `.` of the first block.
            None if block.0 == 0 => data.self_inode().ok(),
            owner => owner,
        };
        if let Some(other) = owner.filter(|owner| *owner != self.inode.number()) {
            let place = self.place(pass, block);
            let finding = Finding::new(Code::DirOwner, place, other.to_string());
            pass.findings.push(finding.expected(self.inode.number().to_string()));
        }
        if block.0 == 0 {
            match data.parent() {
                Ok(parent) if is_possible(pass, parent) => self.parent = Some(parent),
                Ok(_) => {}
                Err(corruption) if evidence == Evidence::Sound => {
                    pass.findings.corrupt(&corruption, geometry);
                }
                Err(_) => {}
            }
        }
        self.entries_of(pass, &data, evidence);
        for double in data.duplicate_names() {
            let corruption = Corruption::new(Structure::Directory, address, double.check());
            pass.findings.corrupt(&corruption, geometry);
        }
        Some(data.best_free_length())
    }

    fn entries_of<T: Facts>(
        &mut self,
        pass: &mut Pass<'_, T>,
        data: &DataBlock<'_>,
        evidence: Evidence,
    ) {
        for entry in data.entries() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(corruption) => {
                    // A doubtful block has been reported already.
                    if evidence == Evidence::Sound {
                        pass.findings.corrupt(&corruption, pass.volume.geometry());
                    }
                    self.lose(pass);
                    return;
                }
            };
            self.entries.add(&self.hash, name_hash(entry.name), entry.cookie);
            if matches!(entry.name, b"." | b"..") {
                continue;
            }
            if is_possible(pass, entry.inode) {
                report(pass, self.inode, &entry);
            } else {
                self.lose(pass);
            }
        }
    }

    /// Returns whether the directory has the block form: one data block that holds the index too,
    /// and no blocks of an index.
    fn is_block_form<T: Facts>(&mut self, pass: &mut Pass<'_, T>) -> bool {
        let geometry = pass.volume.geometry();
        let address = index_start(geometry);
        let has_index = self.map.extents.iter().any(|extent| extent.end() > address);
        // A directory of one block without an index has the block form.
        !has_index && self.best.len() <= 1
    }

    /// Reads the hash index and the free-space index.
    fn indexes<T: Facts>(&mut self, pass: &mut Pass<'_, T>) {
        let geometry = pass.volume.geometry();
        let log = geometry.directory_block_log;
        let root = index_start(geometry);
        let fork =
            DaFork { inode: self.inode, map: self.map, kind: ForkKind::Data, blocks_log: log };
        let mut leaves = IndexLeaves {
            hash: self.hash,
            index: IndexSum::default(),
            best: None,
            last: None,
            same_hash: Vec::new(),
        };
        let walked = dabtree::walk(pass, fork, root, &mut leaves);
        let IndexLeaves { index, best, same_hash, .. } = leaves;
        (self.index, self.same_hash) = (index, same_hash);
        self.is_whole &= walked.is_whole;
        let section = self.blocks_of_section(pass, root..free_start(geometry));
        let mapped = section.len() as u64;
        if walked.is_whole && walked.blocks != mapped {
            let found = format!("{mapped} blocks of the hash index are mapped");
            let finding = Finding::new(Code::DirIndex, self.place(pass, root), found);
            pass.findings
                .push(finding.expected(format!("{} that its root leads to", walked.blocks)));
        }
        if self.is_whole && self.index != self.entries {
            let found = format!("{} index entries", self.index.count);
            let finding = Finding::new(Code::DirIndex, self.place(pass, root), found);
            let expected = format!("one for each of {} entries", self.entries.count);
            pass.findings.push(finding.expected(expected));
        }
        match best {
            Some(best) => self.compare_best(pass, &best, root, true),
            None if walked.is_whole => self.free_index(pass),
            None => {}
        }
    }

    /// Compares the free-space index `best` with the data blocks: the length of the longest free
    /// record of each block. With `is_exact`, the index is a table in a leaf, which has one length
    /// for each data block. Otherwise the index has blocks of its own, and may end with lengths for
    /// blocks that do not exist.
    fn compare_best<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        best: &[u16],
        place: FileBlock,
        is_exact: bool,
    ) {
        let absent = |rest: &[u16]| rest.iter().all(|best| *best == NULL_OFFSET);
        let (mine, theirs) = (self.best.as_slice(), best);
        let common = mine.len().min(theirs.len());
        let (mine_head, mine_rest) = mine.split_at(common);
        let (their_head, their_rest) = theirs.split_at(common);
        if let Some(number) = mine_head.iter().zip(their_head).position(|(a, b)| a != b) {
            let shown = |best: Option<&u16>| match best {
                Some(&NULL_OFFSET) | None => "no block".to_owned(),
                Some(best) => format!("{best} bytes"),
            };
            let found = format!("data block {number} has {}", shown(their_head.get(number)));
            let finding = Finding::new(Code::DirBestFree, self.place(pass, place), found);
            pass.findings.push(finding.expected(shown(mine_head.get(number))));
        }
        let is_right = if is_exact {
            mine_rest.is_empty() && their_rest.is_empty()
        } else {
            absent(mine_rest) && absent(their_rest)
        };
        if !is_right {
            let found = format!("longest free records of {} data blocks", theirs.len());
            let finding = Finding::new(Code::DirBestFree, self.place(pass, place), found);
            pass.findings.push(finding.expected(mine.len().to_string()));
        }
    }

    fn free_index<T: Facts>(&mut self, pass: &mut Pass<'_, T>) {
        let geometry = pass.volume.geometry();
        let log = geometry.directory_block_log;
        let first = free_start(geometry);
        let mut best = Vec::new();
        // The section of free blocks has the length of the section before it.
        let end = FileBlock(2 * first.0 - index_start(geometry).0);
        for number in self.blocks_of_section(pass, first..end) {
            let block = FileBlock(first.0 + (number << log));
            let fork = OpenFork { inode: self.inode, kind: ForkKind::Data };
            let run = BlockRun { block, count: 1 << log };
            let read = self.map.read(pass, fork, run, BlockKind::DirectoryFree);
            let Some((bytes, ..)) = read else { return };
            let address = StructureAddress::Data(self.inode.number(), block);
            let free = match FreeBlock::decode(&bytes, address) {
                Ok(free) => free,
                Err(corruption) => {
                    pass.findings.corrupt(&corruption, geometry);
                    return;
                }
            };
            if let Some(other) = free.owner().filter(|owner| *owner != self.inode.number()) {
                let place = self.place(pass, block);
                let finding = Finding::new(Code::DirOwner, place, other.to_string());
                pass.findings.push(finding.expected(self.inode.number().to_string()));
            }
            let starts = usize::try_from(free.first_data_block()).unwrap_or(usize::MAX);
            if starts < best.len() || starts > self.best.len() {
                let check = DirectoryCheck::FreeIndex {
                    first: free.first_data_block(),
                    count: u32::try_from(free.best_free().len()).unwrap_or(u32::MAX),
                    used: 0,
                };
                self.problem(pass, block, Code::DirBestFree, check.to_string());
                return;
            }
            best.resize(starts, NULL_OFFSET);
            best.extend(free.best_free().iter().map(|best| best.get()));
        }
        if self.is_whole {
            self.compare_best(pass, &best, first, false);
        }
    }

    /// Compares the names whose hashes are equal, and reports names that occur twice.
    fn finish<T: Facts>(&mut self, pass: &mut Pass<'_, T>) {
        let same = std::mem::take(&mut self.same_hash);
        for run in same.chunk_by(|a, b| a.0 == b.0) {
            let mut names: Vec<(Vec<u8>, Cookie)> = run
                .iter()
                .filter_map(|(_, cookie)| Some((self.name_at(pass, *cookie)?, *cookie)))
                .collect();
            names.sort();
            for pair in names.windows(2) {
                if let [(first, at), (second, again)] = pair
                    && first == second
                {
                    let check =
                        DirectoryCheck::NameTwice { offset: again.offset(), first: at.offset() };
                    let block = pass.geometry().file_block(again.offset());
                    self.problem(pass, block, Code::DirNameTwice, check.to_string());
                }
            }
        }
    }

    fn name_at<T: Facts>(&self, pass: &mut Pass<'_, T>, cookie: Cookie) -> Option<Vec<u8>> {
        let geometry = pass.volume.geometry();
        let log = geometry.directory_block_log;
        let block = FileBlock(geometry.file_block(cookie.offset()).0 >> log << log);
        let at = self.map.address(pass, block)?;
        let mut bytes = vec![0; geometry.directory_block_size() as usize];
        // The block was read before; a part elsewhere on disk leaves the name out.
        pass.volume.read(at, &mut bytes).ok()?;
        let address = StructureAddress::Data(self.inode.number(), block);
        let start = block.0 << geometry.block_log;
        let data = DataBlock::decode(&bytes, start, address, geometry.directory_form).ok()?;
        data.entry_at(cookie).ok().map(|entry| entry.name.to_vec())
    }
}

/// The visitor of the leaves of a hash index.
struct IndexLeaves {
    hash: Keyed,
    index: IndexSum,
    /// The free-space table of the leaf, if the index has only one leaf.
    best: Option<Vec<u16>>,
    /// Hash and position of the last entry so far that is not stale.
    last: Option<(u32, Cookie)>,
    same_hash: Vec<(u32, Cookie)>,
}

/// The most entries with equal hashes whose names are compared in one directory.
const MOST_SAME_HASH: usize = 1 << 16;

impl<T: Facts> LeafVisitor<T> for IndexLeaves {
    fn leaf(&mut self, _pass: &mut Pass<'_, T>, leaf: &DaBlock) -> Option<(u32, u32)> {
        let address = StructureAddress::Data(InodeNumber(0), leaf.block);
        let block = match LeafBlock::decode(&leaf.bytes, address) {
            Ok(block) => block,
            Err(_) => return None,
        };
        self.best = block.best_free().map(|best| best.iter().map(|best| best.get()).collect());
        for entry in block.entries() {
            let (hash, cookie) = (entry.hash.get(), Cookie(entry.cookie.get()));
            if cookie == Cookie::START {
                continue;
            }
            self.index.add(&self.hash, hash, cookie);
            if let Some((last, first)) = self.last.filter(|(last, _)| *last == hash)
                && self.same_hash.len() < MOST_SAME_HASH
            {
                if self.same_hash.last() != Some(&(last, first)) {
                    self.same_hash.push((last, first));
                }
                self.same_hash.push((hash, cookie));
            }
            self.last = Some((hash, cookie));
        }
        let entries = block.entries();
        Some((entries.first()?.hash.get(), entries.last()?.hash.get()))
    }
}
