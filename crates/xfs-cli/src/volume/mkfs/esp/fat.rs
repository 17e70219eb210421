//! The structures of a new FAT32 filesystem, whose files are all known before it is written.
//!
//! ```text
//! sector 0     boot sector   0 jump  3 maker  11 sector bytes  13 sectors per cluster
//!              14 reserved sectors  16 tables  21 media  28 sectors before  32 sectors
//!              36 sectors per table  44 root cluster  48 sector of the counters  50 backup
//!              66 0x29  67 serial number  71 label  82 "FAT32"  510 0x55 0xaa
//! sector 1     counters      0 "RRaA"  484 "rrAa"  488 free clusters  492 next free  510 0x55 0xaa
//! sector 6, 7  copies of both
//! sector 32    two tables of 32-bit numbers: the next cluster of each cluster
//! then         clusters, from number 2 on: the root, and then all entries in order
//!
//! entry        0 short name  11 attributes  13 hundredths  14 created  18 accessed
//!              20 cluster, high half  22 modified  26 cluster, low half  28 bytes
//! long name    0 number, 0x40 in the first  1 5 units  11 0x0f  13 checksum of the short name
//!              14 6 units  28 2 units; in front of its entry, the last part first
//! ```
//!
//! Each file and directory has one run of clusters.
#![allow(clippy::little_endian_bytes, reason = "FAT is little-endian")]

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use xfs_device::{BlockDevice, Durability};

use super::EspEntry;

const SECTOR_BYTES: u64 = 512;
const RESERVED_SECTORS: u64 = 32;
const COUNTERS_SECTOR: u64 = 1;
const BACKUP_SECTOR: u64 = 6;
const TABLES: u64 = 2;
const NUMBER_BYTES: u64 = 4;
const LARGEST_CLUSTER_BYTES: u64 = 4096;
/// The number of clusters that decides the size of a cluster. FAT32 has at least half as many.
const CLUSTERS: u64 = 1 << 17;
/// The number of the first cluster, which the root has.
const FIRST_CLUSTER: u32 = 2;
const END_OF_CHAIN: u32 = 0x0fff_ffff;
/// The number in the place of cluster 0: the medium.
const MEDIUM: u32 = 0x0fff_fff8;

const ENTRY_BYTES: usize = 32;
const LONG_UNITS: usize = 13;
/// The offsets of the UTF-16 units in an entry of a long name.
const UNIT_OFFSETS: [usize; LONG_UNITS] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
const LONG_NAME: u8 = 0x0f;
const LAST_PART: u8 = 0x40;
const VOLUME_LABEL: u8 = 0x08;
const DIRECTORY: u8 = 0x10;
const ARCHIVE: u8 = 0x20;
const LABEL: &[u8; 11] = b"ESP        ";
/// The first and the last year that FAT can store.
const FIRST_YEAR: i16 = 1980;
const LAST_YEAR: i16 = 2107;

/// The largest number of entries of a directory, with the names "." and "..".
pub(super) const MOST_SLOTS: usize = 1 << 16;

/// A short name: eight bytes and three of the extension, with spaces after both.
type ShortName = [u8; 11];

/// A time as FAT stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FatTime {
    pub(super) date: u16,
    /// Units of two seconds.
    pub(super) time: u16,
    pub(super) hundredths: u8,
}

impl FatTime {
    /// The earliest time: the beginning of 1980.
    pub(super) const FIRST: Self = Self { date: 1 << 5 | 1, time: 0, hundredths: 0 };

    /// Returns a time in UTC, within the years that FAT has.
    pub(super) fn of_seconds(seconds: i64) -> Self {
        let Ok(time) = Timestamp::from_second(seconds) else { return Self::FIRST };
        let time = time.to_zoned(TimeZone::UTC);
        if time.year() < FIRST_YEAR {
            return Self::FIRST;
        }
        let field = |value: i8| u16::from(value.unsigned_abs());
        let year = (time.year().min(LAST_YEAR) - FIRST_YEAR).unsigned_abs();
        Self {
            date: year << 9 | field(time.month()) << 5 | field(time.day()),
            time: field(time.hour()) << 11 | field(time.minute()) << 5 | (field(time.second()) / 2),
            hundredths: (time.second() % 2).unsigned_abs() * 100,
        }
    }
}

/// The sizes of a filesystem, in sectors and clusters.
#[derive(Clone, Copy, Debug)]
pub(super) struct FatGeometry {
    sectors: u64,
    pub(super) cluster_bytes: u64,
    table_sectors: u64,
    pub(super) clusters: u64,
}

impl FatGeometry {
    /// Returns the sizes of a filesystem of this length: with the largest clusters with which it
    /// is FAT32, and the smallest tables for them.
    pub(super) fn of(length_bytes: u64) -> Self {
        let mut cluster_bytes = SECTOR_BYTES;
        while cluster_bytes < LARGEST_CLUSTER_BYTES
            && length_bytes / (2 * cluster_bytes) >= CLUSTERS
        {
            cluster_bytes *= 2;
        }
        let (sectors, each) = (length_bytes / SECTOR_BYTES, cluster_bytes / SECTOR_BYTES);
        let rest = sectors - RESERVED_SECTORS;
        // The number of clusters whose numbers one sector of a table holds.
        let numbers = SECTOR_BYTES / NUMBER_BYTES;
        let first = u64::from(FIRST_CLUSTER);
        let table_sectors = (rest + first * each).div_ceil(numbers * each + TABLES);
        let clusters = (rest - TABLES * table_sectors) / each;
        debug_assert!(clusters + first <= table_sectors * numbers, "the tables are long enough");
        Self { sectors, cluster_bytes, table_sectors, clusters }
    }

    /// Returns whether the clusters suffice for these files.
    pub(super) fn holds(self, entries: &[EspEntry]) -> bool {
        clusters_of(&node_bytes(entries), self.cluster_bytes) <= self.clusters
    }

    /// Returns the offset of a cluster.
    fn offset(self, cluster: u32) -> u64 {
        let tables = RESERVED_SECTORS + TABLES * self.table_sectors;
        tables * SECTOR_BYTES + u64::from(cluster - FIRST_CLUSTER) * self.cluster_bytes
    }
}

/// Returns the length in bytes of the root and of each entry.
fn node_bytes(entries: &[EspEntry]) -> Vec<u64> {
    // The label of the root; the names "." and ".." of other directories.
    let mut slots = vec![1];
    slots.extend(entries.iter().map(|entry| if entry.file_bytes.is_none() { 2 } else { 0 }));
    for entry in entries {
        let parent = entry.parent.map_or(0, |parent| parent + 1);
        let parent = slots.get_mut(parent).expect("a directory comes before its entries");
        *parent += slots_of(&entry.name);
    }
    let files = std::iter::once(None).chain(entries.iter().map(|entry| entry.file_bytes));
    let bytes = |(slots, file): (usize, Option<u32>)| match file {
        Some(bytes) => u64::from(bytes),
        None => (slots * ENTRY_BYTES) as u64,
    };
    slots.into_iter().zip(files).map(bytes).collect()
}

fn clusters_of(node_bytes: &[u64], cluster_bytes: u64) -> u64 {
    node_bytes.iter().map(|bytes| bytes.div_ceil(cluster_bytes)).sum()
}

/// The place of everything in a new filesystem.
pub(super) struct FatLayout<'a> {
    geometry: FatGeometry,
    entries: &'a [EspEntry],
    /// The clusters of the root and of each entry. Those of an empty file are 0..0.
    runs: Vec<Range<u32>>,
}

impl<'a> FatLayout<'a> {
    /// Gives clusters to the root and to all entries, which the filesystem holds.
    pub(super) fn new(geometry: FatGeometry, entries: &'a [EspEntry]) -> Self {
        let mut next = FIRST_CLUSTER;
        let runs = node_bytes(entries).into_iter().map(|bytes| {
            let count = bytes.div_ceil(geometry.cluster_bytes) as u32;
            if count == 0 {
                return 0..0;
            }
            next += count;
            next - count..next
        });
        let runs = runs.collect();
        Self { geometry, entries, runs }
    }

    /// Returns the range of bytes of each entry.
    pub(super) fn entry_places(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().skip(1).map(|run| self.place(run))
    }

    fn place(&self, run: &Range<u32>) -> Range<u64> {
        match run.is_empty() {
            true => 0..0,
            false => self.geometry.offset(run.start)..self.geometry.offset(run.end),
        }
    }

    /// Writes everything but the contents of files. `start` is the offset of the filesystem on the
    /// disk.
    pub(super) fn write(
        &self,
        device: &dyn BlockDevice,
        start: u64,
        volume_id: u32,
    ) -> io::Result<()> {
        let write = |bytes: &[u8], at: u64| device.write_at(bytes, at, Durability::Cached);
        device.write_zeros(0, RESERVED_SECTORS * SECTOR_BYTES)?;
        let boot = self.boot_sector(start, volume_id);
        let counters = self.counters();
        for first in [0, BACKUP_SECTOR] {
            write(&boot, first * SECTOR_BYTES)?;
            write(&counters, (first + COUNTERS_SECTOR) * SECTOR_BYTES)?;
        }
        let table = self.table();
        let table_bytes = self.geometry.table_sectors * SECTOR_BYTES;
        for copy in 0..TABLES {
            let at = RESERVED_SECTORS * SECTOR_BYTES + copy * table_bytes;
            write(&table, at)?;
            let used = table.len() as u64;
            device.write_zeros(at + used, table_bytes - used)?;
        }
        for (node, run) in self.runs.iter().enumerate() {
            let is_directory = match node.checked_sub(1) {
                None => true,
                Some(index) => self.entries.get(index).is_some_and(|e| e.file_bytes.is_none()),
            };
            if is_directory {
                let place = self.place(run);
                let mut bytes = self.directory(node);
                bytes.resize((place.end - place.start) as usize, 0);
                write(&bytes, place.start)?;
            }
        }
        Ok(())
    }

    /// Returns the number of clusters that are in use.
    fn used(&self) -> u32 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    fn boot_sector(&self, start: u64, volume_id: u32) -> Vec<u8> {
        let FatGeometry { sectors, cluster_bytes, table_sectors, .. } = self.geometry;
        let word = |value: u64| (value as u32).to_le_bytes();
        let mut boot = vec![0; SECTOR_BYTES as usize];
        put(&mut boot, 0, &[0xeb, 0x58, 0x90]);
        put(&mut boot, 3, b"FERROXFS");
        put(&mut boot, 11, &(SECTOR_BYTES as u16).to_le_bytes());
        put(&mut boot, 13, &[(cluster_bytes / SECTOR_BYTES) as u8]);
        put(&mut boot, 14, &(RESERVED_SECTORS as u16).to_le_bytes());
        put(&mut boot, 16, &[TABLES as u8]);
        put(&mut boot, 21, &[MEDIUM as u8]);
        // Sectors per track and heads, which no reader of LBA needs.
        put(&mut boot, 24, &63_u16.to_le_bytes());
        put(&mut boot, 26, &255_u16.to_le_bytes());
        put(&mut boot, 28, &word(start / SECTOR_BYTES));
        put(&mut boot, 32, &word(sectors));
        put(&mut boot, 36, &word(table_sectors));
        put(&mut boot, 44, &FIRST_CLUSTER.to_le_bytes());
        put(&mut boot, 48, &(COUNTERS_SECTOR as u16).to_le_bytes());
        put(&mut boot, 50, &(BACKUP_SECTOR as u16).to_le_bytes());
        put(&mut boot, 64, &[0x80, 0, 0x29]);
        put(&mut boot, 67, &volume_id.to_le_bytes());
        put(&mut boot, 71, LABEL);
        put(&mut boot, 82, b"FAT32   ");
        // The code that the jump leads to: it halts.
        put(&mut boot, 90, &[0xf4, 0xeb, 0xfd]);
        put(&mut boot, 510, &[0x55, 0xaa]);
        boot
    }

    fn counters(&self) -> Vec<u8> {
        let used = self.used();
        let free = (self.geometry.clusters as u32).saturating_sub(used);
        let mut counters = vec![0; SECTOR_BYTES as usize];
        put(&mut counters, 0, b"RRaA");
        put(&mut counters, 484, b"rrAa");
        put(&mut counters, 488, &free.to_le_bytes());
        put(&mut counters, 492, &(FIRST_CLUSTER + used).to_le_bytes());
        put(&mut counters, 510, &[0x55, 0xaa]);
        counters
    }

    /// Returns the part of the table up to the last cluster in use.
    fn table(&self) -> Vec<u8> {
        let mut numbers = vec![MEDIUM, END_OF_CHAIN];
        for run in &self.runs {
            numbers.extend(run.clone().map(|cluster| match cluster + 1 < run.end {
                true => cluster + 1,
                false => END_OF_CHAIN,
            }));
        }
        numbers.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Returns the entries of a directory. Node 0 is the root.
    fn directory(&self, node: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let own = node.checked_sub(1).and_then(|index| self.entries.get(index));
        match own {
            None => bytes.extend(entry(LABEL, VOLUME_LABEL, 0, 0, FatTime::FIRST)),
            Some(own) => {
                // The root is cluster 0 here.
                let parent = own.parent.map_or(0, |parent| self.first_cluster(parent + 1));
                let first = self.first_cluster(node);
                bytes.extend(entry(b".          ", DIRECTORY, first, 0, own.modified));
                bytes.extend(entry(b"..         ", DIRECTORY, parent, 0, own.modified));
            }
        }
        let inside = |(_, entry): &(usize, &EspEntry)| entry.parent == node.checked_sub(1);
        let children: Vec<_> = self.entries.iter().enumerate().filter(inside).collect();
        let mut names = ShortNames::reserve(children.iter().map(|(_, child)| child.name.as_str()));
        for (index, child) in children {
            let short = names.of(&child.name);
            bytes.extend(long_entries(&child.name, &short));
            let kind = if child.file_bytes.is_none() { DIRECTORY } else { ARCHIVE };
            let (first, length) = (self.first_cluster(index + 1), child.file_bytes.unwrap_or(0));
            bytes.extend(entry(&short, kind, first, length, child.modified));
        }
        bytes
    }

    fn first_cluster(&self, node: usize) -> u32 {
        self.runs.get(node).map_or(0, |run| run.start)
    }
}

/// Returns an entry of a directory.
fn entry(name: &ShortName, kind: u8, first: u32, length: u32, time: FatTime) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    put(&mut bytes, 0, name);
    put(&mut bytes, 11, &[kind, 0, time.hundredths]);
    put(&mut bytes, 14, &time.time.to_le_bytes());
    put(&mut bytes, 16, &time.date.to_le_bytes());
    put(&mut bytes, 18, &time.date.to_le_bytes());
    put(&mut bytes, 20, &((first >> 16) as u16).to_le_bytes());
    put(&mut bytes, 22, &time.time.to_le_bytes());
    put(&mut bytes, 24, &time.date.to_le_bytes());
    put(&mut bytes, 26, &(first as u16).to_le_bytes());
    put(&mut bytes, 28, &length.to_le_bytes());
    bytes
}

/// Returns the parts of a long name, in order; none if the short name says it all.
fn long_parts(name: &str) -> Vec<[u16; LONG_UNITS]> {
    if exact_short_name(name).is_some() {
        return Vec::new();
    }
    let units: Vec<u16> = name.encode_utf16().collect();
    let part = |units: &[u16]| {
        // A zero ends a name that does not fill its last part.
        let rest = std::iter::once(0).chain(std::iter::repeat(u16::MAX));
        let mut all = units.iter().copied().chain(rest);
        std::array::from_fn(|_| all.next().unwrap_or(u16::MAX))
    };
    units.chunks(LONG_UNITS).map(part).collect()
}

/// Returns the number of entries that a name takes in its directory.
pub(super) fn slots_of(name: &str) -> usize {
    1 + long_parts(name).len()
}

/// Returns the entries of the long name of a file, in their order on the disk.
fn long_entries(name: &str, short: &ShortName) -> Vec<u8> {
    let sum = short.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let parts = long_parts(name);
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate().rev() {
        let mut entry = [0; ENTRY_BYTES];
        // A name has at most 255 bytes, so at most 20 parts.
        let number = index as u8 + 1;
        let flag = if index + 1 == parts.len() { LAST_PART } else { 0 };
        put(&mut entry, 0, &[number | flag]);
        put(&mut entry, 11, &[LONG_NAME, 0, sum]);
        for (offset, unit) in UNIT_OFFSETS.into_iter().zip(part) {
            put(&mut entry, offset, &unit.to_le_bytes());
        }
        bytes.extend(entry);
    }
    bytes
}

fn is_short_letter(letter: char) -> bool {
    letter.is_ascii_uppercase() || letter.is_ascii_digit() || "$%'-_@~`!(){}^#&".contains(letter)
}

/// Returns the short name with which a file needs no long name; `None` if it needs one.
fn exact_short_name(name: &str) -> Option<ShortName> {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let fits = (1..=8).contains(&base.len())
        && extension.len() <= 3
        && base.chars().chain(extension.chars()).all(is_short_letter)
        && extension.is_empty() != name.contains('.');
    fits.then(|| short_name(base, extension))
}

fn short_name(base: &str, extension: &str) -> ShortName {
    let mut name = *b"           ";
    put(&mut name, 0, base.as_bytes());
    put(&mut name, 8, extension.as_bytes());
    name
}

/// The short names of a directory.
struct ShortNames(HashSet<ShortName>);

impl ShortNames {
    /// Keeps the names that are short names already for their files.
    fn reserve<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self(names.filter_map(exact_short_name).collect())
    }

    /// Returns the short name of a file: its name, or the first name with a number that is free.
    fn of(&mut self, name: &str) -> ShortName {
        if let Some(exact) = exact_short_name(name) {
            return exact;
        }
        let (base, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let letters = |text: &str, most: usize| -> String {
            let kept = text.chars().filter(|letter| !matches!(letter, ' ' | '.'));
            let letter = |letter: char| match letter.to_ascii_uppercase() {
                upper if is_short_letter(upper) => upper,
                _ => '_',
            };
            kept.map(letter).take(most).collect()
        };
        let (base, extension) = (letters(base, 8), letters(extension, 3));
        let mut number = 1_u32;
        loop {
            let tail = format!("~{number}");
            let kept = base.get(..base.len().min(8 - tail.len())).unwrap_or_default();
            let short = short_name(&format!("{kept}{tail}"), &extension);
            if self.0.insert(short) {
                return short;
            }
            number += 1;
        }
    }
}

/// Copies bytes to an offset.
///
/// # Panics
///
/// Panics if they do not fit: the sizes of structures are constants.
fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    let place = bytes.get_mut(offset..offset + value.len());
    place.expect("a field lies inside of its structure").copy_from_slice(value);
}

#[cfg(test)]
mod tests;
