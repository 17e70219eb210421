//! The names of a damaged directory.
//!
//! Owns: names in all four forms, the parent, and the search for entries in blocks whose records no
//! longer follow each other without gaps. Does **not** own: the hash index and the free-space
//! index, which only repeat facts about the entries.

mod short_form;

use xfs_format::directory::data::{
    BLOCK_MAGIC, BlockTailDisk, DATA_HEADER, DATA_MAGIC, FREE_TAG, entry_length,
};
use xfs_format::directory::{
    ALIGNMENT, Cookie, DataBlock, DirectoryForm, Entry, EntryType, HashEntryDisk, ShortForm,
    index_start,
};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::{
    BlockKind, Check, Corruption, DiskAddr, FileBlock, FsBlock, InodeNumber, Lsn, Structure,
    StructureAddress,
};

use crate::fork::{FileRange, ForkEvidence};
use crate::inode::InodeEvidence;
use crate::volume::{Damage, Evidence, Trust};

/// The largest number of names that are returned for one directory.
const MOST_NAMES: usize = 1 << 26;
/// The largest number of damages that are reported for one directory.
const MOST_DAMAGES: usize = 1 << 10;

/// A name that was found in a damaged directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundName {
    /// The name: 1 to 255 bytes without `/` and NUL.
    pub name: Box<[u8]>,
    /// The inode that the entry names.
    pub child: InodeNumber,
    /// The type of the inode that the entry names, as the entry stores it.
    pub entry_type: EntryType,
    /// The position of the entry in the directory.
    pub cookie: Cookie,
    /// The LSN of the last logged change of the block or the inode that holds the entry. `None` if
    /// that block or inode was never logged.
    pub lsn: Option<Lsn>,
    /// Whether the entry's block passed all checks.
    pub trust: Trust,
}

/// The names of a directory, as far as they could be read.
#[derive(Clone, Debug, Default)]
pub struct DirectoryEvidence {
    /// The parent directory, according to the entry `..` or the header of the short form. `None` if
    /// it could not be read.
    pub parent: Option<InodeNumber>,
    /// The names, without `.` and `..`, in the order of their cookies.
    pub names: Vec<FoundName>,
    /// The ranges of data blocks that could not be read or failed a check. Doubtful names from such
    /// blocks are in `names`.
    pub missing: Vec<FileRange>,
    /// The extent map of the data fork. It is empty in the short form.
    pub map: ForkEvidence,
    /// The damages that were found while the directory was read.
    pub damages: Vec<Damage>,
    /// Whether all entries of a short form were read although a field of the short form is damaged.
    is_complete: bool,
}

impl DirectoryEvidence {
    /// Returns whether all names were read. Damage in other fields of the directory does not
    /// matter.
    #[must_use]
    pub fn has_all_names(&self) -> bool {
        self.is_complete || self.is_whole()
    }

    /// Returns whether all names were read and none of them is doubtful.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.missing.is_empty() && self.map.is_whole()
    }

    fn damage(&mut self, damage: impl Into<Damage>) {
        if self.damages.len() < MOST_DAMAGES {
            self.damages.push(damage.into());
        }
    }

    /// Adds a range of the fork to `missing`. If the last range of `missing` ends where this range
    /// starts, the two are joined.
    fn miss(&mut self, range: FileRange) {
        match self.missing.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.missing.push(range),
        }
    }

    fn take(&mut self, entry: &Entry<'_>, quality: EntryQuality) {
        let EntryQuality { lsn, trust } = quality;
        match entry.name {
            b"." => {}
            b".." => self.parent = self.parent.or(Some(entry.inode)),
            name if self.names.len() < MOST_NAMES => self.names.push(FoundName {
                name: name.into(),
                child: entry.inode,
                entry_type: entry.entry_type,
                cookie: entry.cookie,
                lsn,
                trust,
            }),
            _ => self.damage(Damage::OverBudget { budget: MOST_NAMES as u64 }),
        }
    }
}

impl Evidence<'_> {
    /// Reads the names of a directory in any form, from the inode or from the data blocks. The hash
    /// index is not read.
    #[must_use]
    pub fn entries(&self, inode: &InodeEvidence) -> DirectoryEvidence {
        let mut found = DirectoryEvidence::default();
        let Some(core) = inode.any_core() else { return found };
        if core.data_format == ForkFormat::Local {
            self.short_form(inode, &mut found);
            return found;
        }
        self.entries_by_map(inode, self.extents(inode, ForkKind::Data))
    }

    /// Reads the names of a directory whose data fork has the extent map `map`. The map may have
    /// been [filled](ForkEvidence::fill) from another source.
    #[must_use]
    pub fn entries_by_map(&self, inode: &InodeEvidence, map: ForkEvidence) -> DirectoryEvidence {
        let mut found = DirectoryEvidence { map, ..DirectoryEvidence::default() };
        let step = 1_u64 << self.geometry().directory_block_log;
        let limit = index_start(self.geometry()).0;
        found.missing =
            found.map.missing.iter().copied().filter(|range| range.start.0 < limit).collect();
        let mut reads = self.fork_reads();
        let mut next = 0;
        for extent in found.map.extents.clone() {
            let mut block = extent.file_block.0.max(next).next_multiple_of(step);
            if extent.file_block.0 > next {
                self.lose_gap(
                    FileRange { start: FileBlock(next), end: extent.file_block },
                    inode,
                    &mut found,
                );
            }
            while block < extent.end().0.min(limit) {
                if reads.is_over() {
                    found.miss(FileRange { start: FileBlock(block), end: FileBlock(limit) });
                    found.damage(Damage::OverBudget { budget: reads.wasted() });
                    found.names.sort_by_key(|name| name.cookie);
                    return found;
                }
                let first = extent.start.0 + (block - extent.file_block.0);
                if !reads.is_first(FsBlock(first)) {
                    found.miss(FileRange { start: FileBlock(block), end: FileBlock(block + step) });
                    found.damage(Damage::Repeated { block: FsBlock(first) });
                } else if !self.data_block(inode.number, FileBlock(block), &mut found) {
                    reads.waste();
                }
                block += step;
            }
            next = block.max(next);
        }
        found.names.sort_by_key(|name| name.cookie);
        found
    }

    /// Adds to the missing ranges the data blocks in a gap between extents, up to the size of the
    /// directory. If the map of the whole gap could be read, the gap is a hole of the file, and
    /// nothing is added.
    fn lose_gap(&self, gap: FileRange, inode: &InodeEvidence, found: &mut DirectoryEvidence) {
        let size = inode.any_core().map_or(0, |core| core.size);
        let end = FileBlock(size.div_ceil(u64::from(self.geometry().block_size)).min(gap.end.0));
        // Data blocks without entries are punched out of a directory, so a gap is no damage.
        let missing = &found.map.missing;
        let first = missing.partition_point(|range| range.end <= gap.start);
        let is_known = missing.get(first).is_some_and(|range| range.start < end);
        if end > gap.start && is_known {
            found.miss(FileRange { start: gap.start, end });
        }
    }

    fn short_form(&self, inode: &InodeEvidence, found: &mut DirectoryEvidence) {
        let address = StructureAddress::Inode(inode.number);
        let fork = inode.fork(ForkKind::Data);
        let stated = inode.any_core().map_or(0, |core| core.size);
        let size = usize::try_from(stated).map_or(fork.len(), |size| size.min(fork.len()));
        let trust = if inode.is_sound() { Trust::Sound } else { Trust::Doubtful };
        let bytes = fork.get(..size).unwrap_or(fork);
        let form = match ShortForm::decode(bytes, address, DirectoryForm::V5) {
            Ok(form) => form,
            Err(corruption) => return found.damage(corruption),
        };
        let is_inode = |number: InodeNumber| self.geometry().split_inode(number).is_some();
        found.parent = Some(form.parent()).filter(|parent| is_inode(*parent));
        if let Err(corruption) = form.verify(self.geometry()) {
            found.damage(corruption);
        }
        // A form that fails its check as a whole still has good entries around the damage.
        let trust = if found.damages.is_empty() { trust } else { Trust::Doubtful };
        let lsn = inode.any_core().and_then(|core| logged(core.lsn));
        let read = short_form::entries(fork, stated, self.geometry());
        found.is_complete = !read.is_missing_any;
        for entry in &read.entries {
            found.take(entry, EntryQuality { lsn, trust });
        }
    }

    /// Reads one directory block, which may consist of several filesystem blocks. Returns whether
    /// the block belongs to the directory and passed all checks.
    fn data_block(
        &self,
        owner: InodeNumber,
        block: FileBlock,
        found: &mut DirectoryEvidence,
    ) -> bool {
        let count = 1_u64 << self.geometry().directory_block_log;
        let whole = FileRange { start: block, end: FileBlock(block.0 + count) };
        let mut bytes = Vec::new();
        let mut first = None;
        for part in block.0..block.0 + count {
            let extent = found.map.find(FileBlock(part));
            let start = extent.map(|extent| FsBlock(extent.start.0 + (part - extent.file_block.0)));
            match start.map(|start| self.read_block(start)) {
                Some(Ok((read, at))) => {
                    first = first.or(Some(at));
                    bytes.extend(read);
                }
                Some(Err(damage)) => {
                    found.damage(damage);
                    found.miss(whole);
                    // The parts that can be read still hold entries.
                    bytes.resize(bytes.len() + self.geometry().block_size as usize, 0);
                }
                None => bytes.resize(bytes.len() + self.geometry().block_size as usize, 0),
            }
        }
        let Some(at) = first else { return false };
        self.take_block(owner, block, FoundBytes { bytes: &bytes, at }, found)
    }

    fn take_block(
        &self,
        owner: InodeNumber,
        block: FileBlock,
        read: FoundBytes<'_>,
        found: &mut DirectoryEvidence,
    ) -> bool {
        let FoundBytes { bytes, at } = read;
        let whole = FileRange {
            start: block,
            end: FileBlock(block.0 + (1_u64 << self.geometry().directory_block_log)),
        };
        let start = block.0 << self.geometry().block_log;
        let address = StructureAddress::Data(owner, block);
        let mut damages = Vec::new();
        let trust = self.judge(BlockKind::DirectoryData, bytes, at, &mut damages);
        let decoded = DataBlock::decode(bytes, start, address, DirectoryForm::V5).ok();
        let foreign = decoded.as_ref().and_then(DataBlock::owner).filter(|found| *found != owner);
        if let (Some(other), Some(Trust::Sound)) = (foreign, trust) {
            let check = Check::ForeignOwner { found: other.0, expected: owner.0 };
            found.damage(Corruption::new(Structure::Directory, address, check));
            found.miss(whole);
            return false;
        }
        let lsn = xfs_format::kind::find_lsn(bytes, self.geometry());
        match (trust, decoded) {
            (Some(Trust::Sound), Some(data)) => {
                for entry in data.entries().map_while(Result::ok) {
                    found.take(&entry, EntryQuality { lsn, trust: Trust::Sound });
                }
                true
            }
            _ => {
                damages.into_iter().for_each(|damage| found.damage(damage));
                found.miss(whole);
                if let Some(Trust::Doubtful) = trust {
                    let quality = EntryQuality { lsn, trust: Trust::Doubtful };
                    self.search(bytes, start, |entry| found.take(entry, quality));
                }
                false
            }
        }
    }

    /// Reads a directory data block at an address where a sweep of the device has found one.
    /// Returns the directory that the block names as its owner, and the names.
    ///
    /// The block does not say where in the directory it belongs, so the cookies of the names count
    /// from the start of the block.
    #[must_use]
    pub fn directory_block(&self, at: DiskAddr) -> Option<(InodeNumber, DirectoryEvidence)> {
        let mut bytes = vec![0; self.geometry().directory_block_size() as usize];
        self.read(at, &mut bytes).ok()?;
        let address = StructureAddress::Disk(at);
        let owner = DataBlock::decode(&bytes, 0, address, DirectoryForm::V5).ok()?.owner()?;
        let mut found = DirectoryEvidence::default();
        let read = FoundBytes { bytes: &bytes, at };
        self.take_block(owner, FileBlock(0), read, &mut found);
        Some((owner, found))
    }

    /// Returns the names that were deleted from the directory data block at `at`, as far as later
    /// entries have not overwritten them.
    ///
    /// A deleted entry becomes free space: its inode number loses the high 32 bits, and its name
    /// stays. The names are doubtful, because nothing protects free space.
    #[must_use]
    pub fn deleted_names(&self, at: DiskAddr) -> Vec<FoundName> {
        let mut bytes = vec![0; self.geometry().directory_block_size() as usize];
        let mut found = Vec::new();
        if self.read(at, &mut bytes).is_err() {
            return found;
        }
        let records = bytes.get(..records_end(&bytes)).unwrap_or(&bytes);
        let mut offset = DATA_HEADER;
        while let Some(record) = records.get(offset..).filter(|record| !record.is_empty()) {
            let length = match free_length(record) {
                Some(length) => {
                    let free = record.get(..length).unwrap_or(record);
                    found.extend(self.deleted_in(free, offset));
                    length
                }
                None => record.get(8).map_or(ALIGNMENT, |name| entry_length((*name).into())),
            };
            offset += length;
        }
        found
    }

    /// Returns the deleted names that are left in one free record. The record starts at byte
    /// `start` of its block.
    fn deleted_in(&self, free: &[u8], start: usize) -> Vec<FoundName> {
        let mut found = Vec::new();
        let mut offset = 0;
        while let Some(rest) = free.get(offset..).filter(|rest| !rest.is_empty()) {
            match self.deleted_entry(rest, start + offset) {
                Some((name, length)) => {
                    found.push(name);
                    offset += length;
                }
                None => offset += ALIGNMENT,
            }
        }
        found
    }

    fn deleted_entry(&self, rest: &[u8], offset: usize) -> Option<(FoundName, usize)> {
        let inode: [u8; 8] = *rest.first_chunk()?;
        // A free record begins with a tag and its length, over the high bits of the number.
        let is_cut = inode.starts_with(&FREE_TAG.to_be_bytes());
        let mask = if is_cut { u64::from(u32::MAX) } else { u64::MAX };
        let child = InodeNumber(u64::from_be_bytes(inode) & mask);
        let name_length = usize::from(*rest.get(8)?);
        let name = rest.get(9..9 + name_length)?;
        let entry_type = EntryType::from_disk(*rest.get(9 + name_length)?)?;
        let length = entry_length(name_length);
        let tag: [u8; 2] = *rest.get(..length)?.last_chunk()?;
        // The last entry of a free record has the tag of the record.
        let is_own = usize::from(u16::from_be_bytes(tag)) == offset || rest.len() == length;
        let is_entry = is_own
            && !name.is_empty()
            && xfs_format::directory::name_is_sound(name)
            && entry_type != EntryType::Unknown
            && child.0 != 0
            && self.geometry().split_inode(child).is_some();
        let cookie = Cookie::from_offset(offset as u64)?;
        let trust = Trust::Doubtful;
        let name = FoundName { name: name.into(), child, entry_type, cookie, lsn: None, trust };
        is_entry.then_some((name, length))
    }

    /// Searches a block for entries, in steps of 8 bytes. A record is believed if its tag equals
    /// its offset, its name is legal and its inode number lies inside the volume. The search
    /// continues at the end of such a record.
    fn search(&self, bytes: &[u8], start: u64, mut on_entry: impl FnMut(&Entry<'_>)) {
        let end = records_end(bytes);
        let mut copy = bytes.get(..end).unwrap_or(bytes).to_vec();
        if let Some(magic) = copy.first_chunk_mut() {
            *magic = DATA_MAGIC.to_be_bytes();
        }
        let address = StructureAddress::Disk(DiskAddr(0));
        let form = DirectoryForm::V5;
        let Ok(block) = DataBlock::decode(&copy, start, address, form) else { return };
        let mut offset = DATA_HEADER;
        while offset < copy.len() {
            let cookie = Cookie::from_offset(start + offset as u64);
            let entry = cookie.and_then(|cookie| block.entry_at(cookie).ok());
            match entry.filter(|entry| self.geometry().split_inode(entry.inode).is_some()) {
                Some(entry) => {
                    on_entry(&entry);
                    offset += entry_length(entry.name.len());
                }
                None => offset += ALIGNMENT,
            }
        }
    }
}

/// Returns the length of a free record, or `None` if the record is not free or has an impossible
/// length.
fn free_length(record: &[u8]) -> Option<usize> {
    let [high, low, first, second] = *record.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([first, second]));
    let is_free = u16::from_be_bytes([high, low]) == FREE_TAG;
    (is_free && length >= ALIGNMENT && length <= record.len()).then_some(length)
}

/// The age of an entry (the LSN of its block or inode), and how far the entry can be believed.
#[derive(Clone, Copy)]
struct EntryQuality {
    lsn: Option<Lsn>,
    trust: Trust,
}

/// Returns `lsn`, or `None` if its value means that a structure was never logged.
fn logged(lsn: Lsn) -> Option<Lsn> {
    (lsn.0 != 0 && !lsn.is_null()).then_some(lsn)
}

/// The bytes of a directory block and the address from which they were read.
#[derive(Clone, Copy)]
struct FoundBytes<'a> {
    bytes: &'a [u8],
    at: DiskAddr,
}

/// Returns the offset at which the records of a data block end. This is the end of the block, or
/// the start of the index in a block of the block form. If the tail states an impossible number of
/// index entries, the result is the end of the block.
fn records_end(bytes: &[u8]) -> usize {
    let is_block_form =
        bytes.first_chunk().is_some_and(|magic| u32::from_be_bytes(*magic) == BLOCK_MAGIC);
    let tail = size_of::<BlockTailDisk>();
    let count = bytes
        .len()
        .checked_sub(tail)
        .and_then(|at| bytes.get(at..)?.first_chunk())
        .map(|count| u32::from_be_bytes(*count));
    let index = count
        .and_then(|count| usize::try_from(count).ok()?.checked_mul(size_of::<HashEntryDisk>()));
    let end = index.and_then(|index| bytes.len().checked_sub(tail)?.checked_sub(index));
    end.filter(|end| is_block_form && *end >= DATA_HEADER).unwrap_or(bytes.len())
}
