//! Surveys of whole images: every read operation of the library on everything in a volume.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use ferroxfs::contents::ForkKind;
use ferroxfs::device::Devices;
use ferroxfs::{Error, FileType, Node, OpenError, OpenOptions, Volume};
use xfs_alloc::AgHeaders;
use xfs_check::CheckOptions;
use xfs_format::btree::BtreeFormat;
use xfs_format::{AgNumber, DiskAddr, Structure, StructureAddress, Superblock};
use xfs_scan::{AccountBy, Field, Fields, Format, Header, Output, ScanOptions, ScanSource};
use xfs_testkit::{Image, Prng, golden, golden_version_4};

use crate::structures::FuzzTarget;
use crate::{damaged, kinds, seeds};

/// Size of the buffer cache in bytes. It is small, so that the cache and not the image bounds the
/// memory that a survey takes.
pub(crate) const CACHE_BYTES: usize = 4 << 20;

/// Memory limit of a scan, in bytes.
const SCAN_BYTES: u64 = 64 << 20;

/// Largest number of findings that are kept as text.
const MAX_FINDINGS: usize = 1000;

/// Largest number of groups that are read: a superblock may claim 2^32 of them.
pub(crate) const MAX_GROUPS: u32 = 64;

/// Approximate number of names that are looked up in each directory.
const SOME_NAMES: usize = 16;

/// Largest number of entries of a directory, or of data ranges of a file, that are visited.
const MAX_VISITED: usize = 2000;

/// Paths of the golden image that are looked up.
const GOLDEN_PATHS: &[&str] =
    &["/deep/1/2/3/4", "/node/a-longer-node-entry-77", "/leaf/leaf-entry-9"];

/// The results of reading everything in an image.
#[derive(Debug, Default)]
pub struct Survey {
    /// Number of files found on the walk from the root.
    pub files: usize,
    /// Number of inodes found in the inode btrees.
    pub inodes: usize,
    /// Number of records found in the btrees of the groups, the inode btrees excepted.
    pub records: usize,
    /// Number of extents of all forks.
    pub extents: usize,
    /// Number of attributes whose value was read.
    pub attributes: usize,
    /// Number of rows, one per inode, that a scan returned.
    pub rows: u64,
    /// Number of findings that a scan reported.
    pub scan_findings: u64,
    /// Errors, in the order in which they occurred.
    pub findings: Vec<Finding>,
}

/// An error that reading the image returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The corrupt structure, or `None` if the error is no corruption.
    pub structure: Option<Structure>,
    /// The error message.
    pub text: String,
}

impl Survey {
    fn note(&mut self, error: &Error) {
        if self.findings.len() < MAX_FINDINGS {
            let structure = match error {
                Error::Corrupt(corruption) => Some(corruption.structure()),
                _ => None,
            };
            self.findings.push(Finding { structure, text: error.to_string() });
        }
    }

    fn keep<T>(&mut self, outcome: Result<T, Error>) -> Option<T> {
        outcome.map_err(|error| self.note(&error)).ok()
    }
}

/// Opens an image and reads everything in it.
///
/// # Errors
///
/// Returns an error if the image cannot be opened.
pub fn survey(image: Image) -> Result<Survey, OpenError> {
    let options = OpenOptions::new().cache_bytes(CACHE_BYTES).no_recovery(true);
    survey_devices(options.with_devices(Arc::new(image), None), GOLDEN_PATHS)
}

/// Opens a volume, reads everything in it, and looks up `paths`.
///
/// # Errors
///
/// Returns an error if the volume cannot be opened.
pub(crate) fn survey_devices(devices: Devices, paths: &[&str]) -> Result<Survey, OpenError> {
    if let Ok(description) = devices.describe() {
        black_box(format!("{:?}", description.superblock));
    }
    let volume = devices.open()?;
    let mut survey = Survey::default();
    let space = volume.space();
    survey.keep(space);
    groups(&volume, &mut survey);
    tree(&volume, &mut survey);
    for path in paths {
        let found = volume.lookup(path);
        survey.keep(found);
    }
    metadata_directory(&volume, &mut survey);
    scan(&volume, &mut survey);
    Ok(survey)
}

fn groups(volume: &Volume, survey: &mut Survey) {
    for group in (0..volume.geometry().ag_count.min(MAX_GROUPS)).map(AgNumber) {
        let cache = volume.cache();
        let Some(headers) = survey.keep(AgHeaders::read(cache, group)) else { continue };
        survey.keep(headers.verify_counters(cache));
        survey.keep(xfs_alloc::read_free_list(cache, &headers.agf));
        records(survey, headers.free_space(cache).map(Some));
        records(survey, headers.free_space_by_size(cache).map(Some));
        records(survey, headers.free_inode_chunks(cache));
        records(survey, headers.reverse_map(cache));
        records(survey, headers.refcounts(cache));
        inodes(volume, group, survey);
    }
}

fn records<F: BtreeFormat>(
    survey: &mut Survey,
    cursor: Result<Option<xfs_btree::Cursor<'_, F>>, Error>,
) {
    let Some(Some(cursor)) = survey.keep(cursor) else { return };
    for record in cursor.records() {
        if survey.keep(record).is_some() {
            survey.records += 1;
        }
    }
}

/// Reads every allocated inode of a group, linked or not.
fn inodes(volume: &Volume, group: AgNumber, survey: &mut Survey) {
    let cache = volume.cache();
    let hides_some = volume.superblock().metadata_directory_inode.is_some();
    let Some(chunks) = survey.keep(xfs_alloc::inode_chunks(cache, group)) else { return };
    for chunk in chunks {
        let Some(chunk) = survey.keep(chunk) else { continue };
        for position in 0..64 {
            let Some(inode) = chunk.start.checked_add(position) else { continue };
            if chunk.allocated() >> position & 1 == 1 {
                let number = volume.geometry().join_inode(group, inode);
                let node = match volume.node(number) {
                    // Inodes below the metadata directory are hidden.
                    Err(Error::Posix(_)) if hides_some => continue,
                    node => node,
                };
                survey.inodes += usize::from(survey.keep(node).is_some());
            }
        }
    }
}

fn tree(volume: &Volume, survey: &mut Survey) {
    let walk = match volume.walk("/") {
        Ok(walk) => walk,
        Err(error) => return survey.note(&error),
    };
    // The walk finds a file once per link, and reading its parents costs time per link too. So each
    // file is read only once.
    let mut seen = HashSet::new();
    let mut last = None;
    for entry in walk {
        match entry {
            Ok(entry) => {
                survey.files += 1;
                if seen.insert(entry.node.number()) {
                    file(&entry.node, survey);
                }
                last = Some(entry.node);
            }
            Err(error) => survey.note(&error.source),
        }
    }
    if let Some(node) = last {
        let whereabouts = volume.inode_paths(node.number());
        survey.keep(whereabouts);
    }
    drop(black_box(volume.lookup("/../../no such name")));
}

/// Reads everything below the metadata directory, if the volume has one. Reads each inode only
/// once, because the entries of a hostile directory may form a cycle.
fn metadata_directory(volume: &Volume, survey: &mut Survey) {
    let root = match volume.metadata_root() {
        Err(Error::Posix(_)) => return,
        root => survey.keep(root),
    };
    let mut seen = HashSet::new();
    let mut waiting: Vec<Node> = root.into_iter().collect();
    while let Some(node) = waiting.pop() {
        if !seen.insert(node.number()) {
            continue;
        }
        survey.files += 1;
        // A parent in the metadata directory has no path, and is not looked up.
        forks(&node, survey);
        if node.file_type() != FileType::Directory {
            contents(&node, survey);
            continue;
        }
        let Some(entries) = survey.keep(node.entries()) else { continue };
        for entry in entries.take(MAX_VISITED) {
            let child = entry.and_then(|entry| node.lookup(entry.name()));
            waiting.extend(survey.keep(child));
        }
    }
}

/// Scans the volume with every column and with sums by owner, project and directory. Discards the
/// rows.
fn scan(volume: &Volume, survey: &mut Survey) {
    let fields = Field::ALL.into_iter().fold(Fields::EMPTY, Fields::with);
    let options = ScanOptions {
        fields,
        threads: 2,
        memory_bytes: SCAN_BYTES,
        accounts: vec![AccountBy::Owner, AccountBy::Project, AccountBy::Directory],
        summary: true,
        ..ScanOptions::default()
    };
    let header = Header { scan_time: 0 };
    let output = Output::begin(Format::Ndjson, fields, header, Box::new(std::io::sink()));
    let report = output
        .and_then(|output| xfs_scan::scan(&[ScanSource::from(volume)], &options, Some(output)));
    match report {
        Ok(report) => {
            (survey.rows, survey.scan_findings) = (report.inodes, report.findings);
        }
        Err(error) => {
            let text = error.to_string();
            survey.findings.push(Finding { structure: None, text });
        }
    }
}

/// Reads the metadata, the extents and the attributes of a file.
fn forks(node: &Node, survey: &mut Survey) {
    black_box(format!("{:?}", node.metadata()));
    for fork in [ForkKind::Data, ForkKind::Attr] {
        for extent in node.extents(fork) {
            let found = survey.keep(extent).is_some();
            survey.extents += usize::from(found);
        }
    }
    for attribute in node.attributes() {
        let Some(attribute) = survey.keep(attribute) else { continue };
        let value = node.attribute(&attribute.name);
        survey.attributes += usize::from(survey.keep(value).is_some());
    }
}

/// Reads everything about one file.
fn file(node: &Node, survey: &mut Survey) {
    forks(node, survey);
    if let Err(error) = node.parents() {
        survey.note(&error);
    }
    match node.file_type() {
        FileType::Symlink => {
            survey.keep(node.read_link());
        }
        FileType::Directory => directory(node, survey),
        FileType::Regular => contents(node, survey),
        _ => {}
    }
}

/// Reads the parent of a directory. Looks up a few of the directory's names, and one name that does
/// not exist.
fn directory(node: &Node, survey: &mut Survey) {
    let parent = node.parent();
    survey.keep(parent);
    let Some(entries) = survey.keep(node.entries()) else { return };
    let entries: Vec<_> = entries.take(MAX_VISITED).filter_map(Result::ok).collect();
    let step = (entries.len() / SOME_NAMES).max(1);
    for entry in entries.iter().step_by(step) {
        let found = node.lookup(entry.name());
        survey.keep(found);
    }
    match node.lookup(OsStr::new("no such name")) {
        Err(Error::Posix(_)) => {}
        outcome => drop(survey.keep(outcome)),
    }
}

/// Reads the start, the middle and the end of a file, and finds its data ranges.
fn contents(node: &Node, survey: &mut Survey) {
    let Some(file) = survey.keep(node.open()) else { return };
    let size = node.metadata().size;
    let mut buffer = vec![0; 8192];
    for offset in [0, size / 2, size.saturating_sub(4096), size, u64::MAX - 4096, u64::MAX] {
        let read = file.read_at(&mut buffer, offset);
        survey.keep(read);
    }
    let mut offset = 0;
    for _ in 0..MAX_VISITED {
        let Some(Some(start)) = survey.keep(file.seek_data(offset)) else { break };
        let Some(Some(end)) = survey.keep(file.seek_hole(start)) else { break };
        assert!(start >= offset && end > start, "data ranges ascend and are not empty");
        offset = end;
    }
}

/// The fuzz targets for whole images. A run of one of them takes about a hundred times as long as a
/// run of a target for a single structure.
pub const WHOLE_IMAGES: &[FuzzTarget] = &[
    FuzzTarget { name: "volume", run: volume, seeds: inputs },
    FuzzTarget { name: "check", run: damaged::check, seeds: inputs },
    FuzzTarget { name: "evidence", run: damaged::evidence, seeds: inputs },
    FuzzTarget { name: "repair", run: damaged::repair, seeds: inputs },
    FuzzTarget { name: "salvage", run: damaged::salvage, seeds: inputs },
    FuzzTarget { name: "kinds", run: kinds::kinds, seeds: kinds::inputs },
    FuzzTarget { name: "kinds_written", run: kinds::kinds_written, seeds: kinds::inputs },
];

/// Returns some inputs of the targets for whole images.
fn inputs() -> Vec<Vec<u8>> {
    (0..20).map(|seed| random_input(&mut Prng::new(seed))).collect()
}

/// Fuzzes a whole image: the golden image with a few fields changed.
///
/// Each 12 bytes of the input are one change: the structure (2 bytes), the offset in the structure
/// and the width of the field (2 bytes), and the value (8 bytes). Checksums are recomputed.
pub fn volume(input: &[u8]) {
    let mut image = golden();
    for change in input.as_chunks::<12>().0.iter().take(MAX_CHANGES) {
        apply(&mut image, change, true);
    }
    drop(black_box(survey(image)));
}

/// Runs every read operation and the checker on the golden image of version 4 with random bytes in
/// some sectors: as it is on disk, and with its log replayed. Nothing on a v4 volume has a
/// checksum, so each change reaches a decoder.
///
/// # Panics
///
/// Panics if the golden image is empty.
pub fn version_4(prng: &mut Prng) {
    static USED: LazyLock<Vec<DiskAddr>> = LazyLock::new(|| {
        let image = golden_version_4();
        let sectors = (0..image.length_bytes() as u64 / 512).map(DiskAddr);
        let is_used = |at: &DiskAddr| image.bytes(*at, 512).is_some_and(|bytes| bytes != [0; 512]);
        sectors.filter(is_used).collect()
    });
    let mut image = golden_version_4();
    for _ in 0..prng.within(1..24) {
        let index = prng.within(0..USED.len());
        let at = *USED.get(index).expect("the index is below the length");
        image.edit_with(at, 512, |bytes| {
            let width = 1 << prng.within(0..4);
            let offset = prng.within(0..512_usize) / width * width;
            let value = if prng.within(0..3) == 0 { u64::MAX } else { prng.number() };
            set(bytes, offset, &value.to_be_bytes(), width);
        });
    }
    let place = StructureAddress::Disk(DiskAddr(0));
    let superblock = image.bytes(DiskAddr(0), 512);
    let superblock = superblock.and_then(|sector| Superblock::decode(&sector, place).ok());
    if let Some(superblock) = superblock {
        let options = CheckOptions::default().threads(1);
        drop(black_box(xfs_check::check(&image, &superblock, &options, &())));
    }
    let options = OpenOptions::new().cache_bytes(CACHE_BYTES);
    if let Ok(volume) = options.with_devices(Arc::new(image.clone()), None).open() {
        let mut survey = Survey::default();
        tree(&volume, &mut survey);
        black_box(survey);
    }
    drop(black_box(survey(image)));
}

pub(crate) const MAX_CHANGES: usize = 16;

/// Returns a random input of [`volume`] with a few changes. Values at the edge of a field's range
/// are more frequent than by chance, because such values test bounds.
#[must_use]
pub fn random_input(prng: &mut Prng) -> Vec<u8> {
    let changes = prng.within(1..5);
    let change = |_| {
        let target = (prng.number() as u32).to_be_bytes();
        let value = match prng.within(0..6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << prng.within(0..64),
            3 => prng.number() % 64,
            4 => u64::MAX >> prng.within(0..64),
            _ => prng.number(),
        };
        [&target[..], &value.to_be_bytes()[..]].concat()
    };
    (0..changes).flat_map(change).collect()
}

/// Changes one field of a structure, as `change` describes it. If `reseals` is `true`, also
/// recomputes the checksum of the structure.
pub(crate) fn apply(image: &mut Image, change: &[u8; 12], reseals: bool) {
    let [s0, s1, o0, o1, value @ ..] = *change;
    let all = seeds::all();
    let Some(seed) = all.get(usize::from(u16::from_be_bytes([s0, s1])) % all.len()) else { return };
    let field = usize::from(u16::from_be_bytes([o0, o1]));
    let width = 1 << (field & 3);
    let offset = (field >> 2) % seed.bytes.len() / width * width;
    image.edit_with(seed.at, seed.bytes.len(), |bytes| {
        set(bytes, offset, &value, width);
        if reseals {
            xfs_testkit::reseal(bytes, seed.kind, seeds::geometry());
        }
    });
}

pub(crate) fn set(bytes: &mut [u8], offset: usize, value: &[u8; 8], width: usize) {
    if let Some(field) = bytes.get_mut(offset..offset + width) {
        field.copy_from_slice(value.get(8 - width..).unwrap_or_default());
    }
}
