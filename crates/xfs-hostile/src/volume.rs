//! Whole images: everything that the library can say about a volume is asked for.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hint::black_box;
use std::sync::Arc;

use ferroxfs::format::inode::ForkKind;
use ferroxfs::{Error, FileType, Node, OpenError, OpenOptions, Volume};
use xfs_alloc::AgHeaders;
use xfs_format::btree::BtreeFormat;
use xfs_format::{AgNumber, Structure};
use xfs_scan::{AccountBy, Field, Fields, Format, Header, Output, ScanOptions, ScanSource};
use xfs_testkit::{Image, Prng, golden};

use crate::seeds;

/// Buffers kept: little, so that the bound on memory is the cache's and not the image's.
const CACHE_BYTES: usize = 4 << 20;

/// Memory that a scan keeps to.
const SCAN_BYTES: u64 = 64 << 20;

/// Findings kept in text. An image can be wrong in as many places as it has.
const MOST_FINDINGS: usize = 1000;

/// Groups looked into: a superblock may claim more than anybody has time for.
const MOST_GROUPS: u32 = 64;

/// Names looked up in a directory, about.
const SOME_NAMES: usize = 16;

/// Pieces of data and hole that are followed in one file.
const MOST_PIECES: usize = 2000;

/// What was seen of an image.
#[derive(Debug, Default)]
pub struct Survey {
    /// Files met on the walk from the root.
    pub files: usize,
    /// Inodes met in the inode btrees.
    pub inodes: usize,
    /// Records met in all other btrees.
    pub records: usize,
    /// Extents of all forks.
    pub extents: usize,
    /// Attributes whose value was read.
    pub attributes: usize,
    /// Rows of inodes in a scan.
    pub rows: u64,
    /// Findings in a scan.
    pub scan_findings: u64,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

/// Something that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which structure was corrupt, where it was that.
    pub structure: Option<Structure>,
    /// As it is printed.
    pub text: String,
}

impl Survey {
    fn note(&mut self, error: &Error) {
        if self.findings.len() < MOST_FINDINGS {
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

/// Opens an image and looks at everything in it.
///
/// # Errors
///
/// Why it could not be opened at all.
pub fn survey(image: Image) -> Result<Survey, OpenError> {
    let options = OpenOptions::new().cache_bytes(CACHE_BYTES).no_recovery(true);
    let devices = options.with_devices(Arc::new(image), None);
    if let Ok(description) = devices.describe() {
        black_box(format!("{:?}", description.superblock));
    }
    let volume = devices.volume()?;
    let mut survey = Survey::default();
    let space = volume.space();
    survey.keep(space);
    groups(&volume, &mut survey);
    tree(&volume, &mut survey);
    scan(&volume, &mut survey);
    Ok(survey)
}

fn groups(volume: &Volume, survey: &mut Survey) {
    for group in (0..volume.geometry().ag_count.min(MOST_GROUPS)).map(AgNumber) {
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

/// Every inode that its group knows, linked or not.
fn inodes(volume: &Volume, group: AgNumber, survey: &mut Survey) {
    let cache = volume.cache();
    let Some(chunks) = survey.keep(xfs_alloc::inode_chunks(cache, group)) else { return };
    for chunk in chunks {
        let Some(chunk) = survey.keep(chunk) else { continue };
        for position in 0..64 {
            let Some(inode) = chunk.start.checked_add(position) else { continue };
            if chunk.allocated() >> position & 1 == 1 {
                let number = volume.geometry().join_inode(group, inode);
                let node = volume.node(number);
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
    // A file with many links is met many times, and has as many parents.
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
    for path in ["/deep/1/2/3/4", "/node/a-longer-node-entry-77", "/leaf/leaf-entry-9"] {
        let found = volume.lookup(path);
        survey.keep(found);
    }
    drop(black_box(volume.lookup("/../../no such name")));
}

/// A scan with every column and account, as lines that nobody reads.
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

/// Everything about one file.
fn file(node: &Node, survey: &mut Survey) {
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

/// The parent of a directory, and a few of its names looked up, as well as one that is not there.
fn directory(node: &Node, survey: &mut Survey) {
    let parent = node.parent();
    survey.keep(parent);
    let Some(entries) = survey.keep(node.entries()) else { return };
    let entries: Vec<_> = entries.take(MOST_PIECES).filter_map(Result::ok).collect();
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

/// Both ends of a file, and where its data are.
fn contents(node: &Node, survey: &mut Survey) {
    let Some(file) = survey.keep(node.open()) else { return };
    let size = node.metadata().size;
    let mut buffer = vec![0; 8192];
    for offset in [0, size / 2, size.saturating_sub(4096), size, u64::MAX - 4096, u64::MAX] {
        let read = file.read_at(offset, &mut buffer);
        survey.keep(read);
    }
    let mut offset = 0;
    for _ in 0..MOST_PIECES {
        let Some(Some(start)) = survey.keep(file.seek_data(offset)) else { break };
        let Some(Some(end)) = survey.keep(file.seek_hole(start)) else { break };
        assert!(start >= offset && end > start, "a piece of data goes forward");
        offset = end;
    }
}

/// The fuzz target for whole images: the golden image with a few fields changed.
///
/// Each 12 bytes of the input are one change: which structure (2 bytes), offset in it and width of
/// the field (2), and the value (8). Checksums are mended.
pub fn volume(input: &[u8]) {
    let mut image = golden();
    for change in input.as_chunks::<12>().0.iter().take(MOST_CHANGES) {
        apply(&mut image, change);
    }
    drop(black_box(survey(image)));
}

const MOST_CHANGES: usize = 16;

/// An input of [`volume`] with a few changes: values at the edge of a field's range more often than
/// chance has it, since those are what bounds are about.
#[must_use]
pub fn random_input(prng: &mut Prng) -> Vec<u8> {
    let changes = prng.within(1..5);
    let change = |_| {
        let place = (prng.number() as u32).to_be_bytes();
        let value = match prng.within(0..6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << prng.within(0..64),
            3 => prng.number() % 64,
            4 => u64::MAX >> prng.within(0..64),
            _ => prng.number(),
        };
        [&place[..], &value.to_be_bytes()[..]].concat()
    };
    (0..changes).flat_map(change).collect()
}

fn apply(image: &mut Image, change: &[u8; 12]) {
    let [s0, s1, o0, o1, value @ ..] = *change;
    let all = seeds::all();
    let Some(seed) = all.get(usize::from(u16::from_be_bytes([s0, s1])) % all.len()) else { return };
    let place = usize::from(u16::from_be_bytes([o0, o1]));
    let width = 1 << (place & 3);
    let offset = (place >> 2) % seed.bytes.len() / width * width;
    image.edit_with(seed.at, seed.bytes.len(), |bytes| {
        set(bytes, offset, &value, width);
        xfs_testkit::mend(bytes, seed.kind, seeds::geometry());
    });
}

fn set(bytes: &mut [u8], offset: usize, value: &[u8; 8], width: usize) {
    if let Some(field) = bytes.get_mut(offset..offset + width) {
        field.copy_from_slice(value.get(8 - width..).unwrap_or_default());
    }
}
