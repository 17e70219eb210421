//! The operations of a thread on files of its own, and the states of these files that are allowed
//! after a power cut.
//!
//! # Rules
//!
//! - **I1** The names of a thread's files are those after one of its steps, the same step for all
//!   files. A renamed file has either its old or its new name, and no step is present without all
//!   earlier steps.
//! - **I2** That step is not older than the promise of any sync that returned before the power cut.
//!   It is not newer than the steps that had begun before the power cut.
//! - **I3** A file whose contents a sync has made durable has these contents.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::FileType;
use xfs_oracle::model::pattern;
use xfs_oracle::{Contents, DirectoryEntry, InodeView, Tree};

/// The identity of a file: the user ID of its owner, which is set when the file is created.
pub(super) type FileIdentity = u32;

/// Number of identities (user IDs) that are reserved for each thread. No thread creates that many
/// files.
const FILES: u32 = 1 << 20;

/// The names of each file. A removed file has an empty set.
type FileNames = BTreeMap<FileIdentity, BTreeSet<String>>;

/// The changes (steps) that a thread has made to its files, in order, and the promises of its
/// syncs.
#[derive(Debug)]
pub(super) struct ThreadLife {
    /// The identity of the thread's first file.
    first: FileIdentity,
    pub(super) steps: Vec<ThreadStep>,
    promises: Vec<FsyncPromise>,
}

/// One change by a thread to the names of its files.
#[derive(Debug)]
pub(super) struct ThreadStep {
    /// Number of requests that the device had recorded when the step began.
    pub(super) began: usize,
    /// The time after the step returned, as a count of events.
    pub(super) returned: u64,
    /// The changed files, each with all of its paths after the step.
    pub(super) changes: Vec<(FileIdentity, Vec<String>)>,
    /// The file whose contents the step wrote, if any.
    pub(super) written: Option<FileIdentity>,
}

/// An fsync of a file whose contents had been written.
#[derive(Debug)]
struct FsyncPromise {
    file: FileIdentity,
    /// The number of steps of the thread that the fsync has made durable.
    steps: usize,
    /// Number of requests that the device had recorded when the fsync returned.
    position: usize,
}

/// A sync of the volume.
#[derive(Debug)]
pub(super) struct VolumeSync {
    /// The time of the call, as a count of events. The sync covers all steps that had returned
    /// before.
    pub(super) began: u64,
    /// Number of requests that the device had recorded when the sync returned.
    pub(super) position: usize,
}

/// Returns the length in bytes that a file must have if its contents were made durable. The length
/// follows from the file's identity.
pub(super) fn length_bytes(file: FileIdentity) -> u64 {
    const MOST: u64 = 9000;
    u64::from(file) * 977 % MOST + 1
}

impl ThreadLife {
    pub(super) fn new(thread: u64) -> Self {
        // Shared files have other owners.
        let first = (thread as u32 + 1) * FILES;
        Self { first, steps: Vec::new(), promises: Vec::new() }
    }

    /// Returns the identity of the thread's n-th file.
    pub(super) fn identity(&self, number: u32) -> FileIdentity {
        self.first + number
    }

    /// Records an fsync of `file` that has just returned, when the device had recorded `position`
    /// requests. The fsync makes durable the last step that changed the file's names, and all
    /// earlier steps.
    pub(super) fn promise(&mut self, file: FileIdentity, position: usize) {
        let changes = |step: &ThreadStep| step.changes.iter().any(|(changed, _)| *changed == file);
        let steps = self.steps.iter().rposition(changes).map_or(0, |last| last + 1);
        self.promises.push(FsyncPromise { file, steps, position });
    }

    /// Judges the thread's files in `tree`, a volume that was recovered after a power cut. At the
    /// cut the device had recorded `point` requests. `syncs` has the syncs of the volume.
    pub(super) fn judge(
        &self,
        tree: &Tree,
        point: usize,
        syncs: &[VolumeSync],
    ) -> Result<(), String> {
        let synced = syncs.iter().filter(|sync| sync.position <= point);
        let synced = synced.map(|sync| sync.began).max().unwrap_or(0);
        let synced = self.steps.iter().take_while(|step| step.returned < synced).count();
        let promises = || self.promises.iter().filter(|promise| promise.position <= point);
        let floor = promises().map(|promise| promise.steps).max().unwrap_or(0).max(synced);
        let begun = self.steps.iter().take_while(|step| step.began <= point).count();
        // One step for all names (I1), from the promised one to the last begun one (I2).
        self.check_names(&self.shown(tree)?, (floor, begun))?;
        let covered = self.steps.iter().take(synced).filter_map(|step| step.written);
        let covered: BTreeSet<_> = covered.chain(promises().map(|p| p.file)).collect();
        let is_covered = |node: &&InodeView| covered.contains(&node.uid);
        // Synced contents are there (I3).
        tree.nodes.values().filter(is_covered).try_for_each(check_contents)
    }

    /// Returns the names that `tree` shows for the thread's files.
    fn shown(&self, tree: &Tree) -> Result<FileNames, String> {
        let mut shown = FileNames::new();
        let is_own = |node: &&InodeView| (self.first..self.first + FILES).contains(&node.uid);
        for node in tree.nodes.values().filter(is_own) {
            let paths = node.paths.iter().map(|path| String::from_utf8_lossy(path).into_owned());
            if shown.insert(node.uid, paths.collect()).is_some() {
                return Err(format!("file {} of a thread exists twice", node.uid));
            }
        }
        Ok(shown)
    }

    fn check_names(&self, shown: &FileNames, (floor, begun): (usize, usize)) -> Result<(), String> {
        let states: Vec<FileNames> = self.states().take(begun + 1).collect();
        let allowed = || states.iter().skip(floor);
        if allowed().any(|names| names == shown) {
            return Ok(());
        }
        if let Some(older) = states.iter().rposition(|names| names == shown) {
            return Err(format!("found step {older} of a thread, but step {floor} was promised"));
        }
        let closest = allowed().map(|names| differences(names, shown));
        let closest = closest.min_by_key(Vec::len).unwrap_or_default().join("; ");
        Err(format!("found no step of a thread from {floor} to {begun}; the closest: {closest}"))
    }

    /// Returns the names of all files before the first step, and then after each step.
    fn states(&self) -> impl Iterator<Item = FileNames> {
        let mut names = FileNames::new();
        let after = self.steps.iter().map(move |step| {
            for (file, paths) in &step.changes {
                match paths.as_slice() {
                    [] => drop(names.remove(file)),
                    paths => drop(names.insert(*file, paths.iter().cloned().collect())),
                }
            }
            names.clone()
        });
        std::iter::once(FileNames::new()).chain(after)
    }
}

/// Checks the link counts of a tree. Each inode must have as many links as names, and a directory
/// one more per subdirectory.
pub(super) fn check_links(tree: &Tree) -> Result<(), String> {
    for (number, node) in &tree.nodes {
        let is_folder = |entry: &&DirectoryEntry| entry.kind == FileType::Directory;
        let expected = match FileType::from_raw_mode(node.mode) {
            FileType::Directory => 2 + node.entries.values().filter(is_folder).count(),
            _ => node.paths.len(),
        };
        if node.links as usize != expected {
            let paths: Vec<_> =
                node.paths.iter().map(|path| path.escape_ascii().to_string()).collect();
            return Err(format!(
                "inode {number}, {paths:?}: {} links, expected {expected}",
                node.links
            ));
        }
    }
    Ok(())
}

fn differences(expected: &FileNames, shown: &FileNames) -> Vec<String> {
    let files: BTreeSet<_> = expected.keys().chain(shown.keys()).collect();
    let differ = files.into_iter().filter(|file| expected.get(file) != shown.get(file));
    let tell = |file: &FileIdentity| {
        format!("file {file} has {:?}, expected {:?}", shown.get(file), expected.get(file))
    };
    differ.map(tell).collect()
}

fn check_contents(node: &InodeView) -> Result<(), String> {
    let bytes = pattern(node.uid.into(), 0, length_bytes(node.uid) as usize);
    let mut expected = Contents { ranges: vec![(0, bytes.len() as u64)], ..Contents::default() };
    expected.update(0, &bytes);
    if node.contents.as_ref() == Some(&expected) {
        return Ok(());
    }
    let path = node.paths.first().map(|path| path.escape_ascii().to_string()).unwrap_or_default();
    Err(format!("/{path} was made durable, but lost its contents: {:?}", node.contents))
}
