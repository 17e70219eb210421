//! A volume of ferroxfs, used through the library.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use ferroxfs::admin::BulkPath;
use ferroxfs::admin::{AgInode, AgNumber};
use ferroxfs::dir::Cookie;
use ferroxfs::{CreateOptions, NewKind, Node, OpenOptions, SetAttributes, Volume};
use xfs_sync::{AtomicU32, Ordering, Volume as OfVolume};

use super::{Cold, Performed, WorkTarget, check_walk};
use crate::counted::{Counted, shared_writes};
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::parallel::in_parallel;
use crate::store::Store;
use crate::work::{Work, WorkStep};

/// Permissions of created files. No usual umask removes any of these bits. So files on the kernel's
/// XFS, to which the umask of this process applies, get the same permissions.
const MODE: u16 = 0o600;
/// The permissions that `WorkStep::Change` sets.
const CHANGED_MODE: u16 = 0o400;
const CREATION: CreateOptions = CreateOptions::new(MODE);
const FOLDER: CreateOptions = CreateOptions::new(0o700);

/// A volume of ferroxfs as a target.
pub struct Library {
    store: Store,
    options: OpenOptions,
    volume: Option<Volume>,
}

impl Library {
    /// Opens the volume of a store.
    ///
    /// # Errors
    ///
    /// The error of opening the volume.
    pub fn open(store: Store, options: OpenOptions) -> Result<Self, WorkloadError> {
        let mut library = Self { store, options: options.write(true), volume: None };
        library.reopen()?;
        Ok(library)
    }

    /// Returns the volume.
    ///
    /// # Panics
    ///
    /// Panics after [`close`](WorkTarget::close).
    #[must_use]
    pub fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("the volume is open")
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        let devices = self.options.with_devices(self.store.device(), None);
        self.volume = Some(devices.open()?);
        Ok(())
    }

    /// Returns the directories that contain the files of the thread with index `thread`.
    fn leaves(&self, thread: usize, work: &Work) -> ferroxfs::Result<Vec<Node>> {
        let top = self.volume().lookup(Path::new("/").join(work.folder(thread)))?;
        if work.directories == 0 {
            return Ok(vec![top]);
        }
        work.leaves().map(|name| top.lookup(name.as_ref())).collect()
    }
}

impl WorkTarget for Library {
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError> {
        let root = self.volume().root()?;
        for thread in 0..work.threads {
            let top = root.create(work.folder(thread), &NewKind::Directory, &FOLDER)?;
            for leaf in work.leaves() {
                top.create(leaf, &NewKind::Directory, &FOLDER)?;
            }
        }
        Ok(())
    }

    fn cool(&mut self) -> Result<Cold, WorkloadError> {
        if let Some(volume) = self.volume.take() {
            volume.close()?;
        }
        self.reopen()?;
        Ok(Cold::Yes)
    }

    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError> {
        let start = Instant::now();
        let operations = match step {
            WorkStep::BulkstatPast => bulkstat(self.volume(), work.threads, BulkPath::PastCache)?,
            WorkStep::Bulkstat => bulkstat(self.volume(), work.threads, BulkPath::ThroughCache)?,
            _ => {
                in_parallel(work.threads, |thread| -> Result<(), WorkloadError> {
                    let leaves = self.leaves(thread, work)?;
                    match step {
                        WorkStep::Walk => check_walk(walk(&leaves)?, work),
                        WorkStep::WalkThrough => check_walk(walk_through(&leaves)?, work),
                        _ => Ok(perform(step, &leaves, work)?),
                    }
                })?;
                work.operations(step)
            }
        };
        let worked = start.elapsed();
        // Unlinked inodes were freed before their removal returned.
        self.volume().sync()?;
        Ok(Performed { operations, worked, drained: start.elapsed(), is_certain: true })
    }

    fn counted(&self) -> Result<Counted, WorkloadError> {
        let statistics = self.volume().statistics()?;
        Ok(Counted {
            transactions: Some(statistics.log.commits),
            log_bytes: Some(statistics.log.written_bytes),
            inodes_in: Some(statistics.inodes.allocated),
            inodes_out: Some(statistics.inodes.freed),
            shared: shared_writes(),
        })
    }

    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError> {
        let parts = in_parallel(work.threads, |thread| {
            let mut digest = Digest::default();
            let name = work.folder(thread);
            for (number, leaf) in self.leaves(thread, work)?.iter().enumerate() {
                let number = (number as u64).to_be_bytes();
                for entry in leaf.entries()? {
                    let entry = entry?;
                    let metadata = entry.node()?.metadata();
                    let place = [name.as_bytes(), &number, entry.name().as_encoded_bytes()];
                    let (mode, nlink) = (metadata.mode.into(), metadata.nlink.into());
                    digest.add(&place, mode, nlink, metadata.size);
                }
            }
            Ok::<_, ferroxfs::Error>(digest)
        })?;
        let mut digest = Digest::default();
        parts.into_iter().for_each(|part| digest.merge(part));
        Ok(digest)
    }

    fn close(&mut self) -> Result<(), WorkloadError> {
        if let Some(volume) = self.volume.take() {
            volume.close()?;
        }
        Ok(())
    }
}

/// Lists all inodes and returns their number. Each of `threads` threads lists whole allocation
/// groups until no group is left.
///
/// # Errors
///
/// The volume's error.
pub fn bulkstat(volume: &Volume, threads: usize, path: BulkPath) -> ferroxfs::Result<u64> {
    let groups = volume.geometry().groups().count() as u32;
    let next = AtomicU32::<OfVolume>::new(0);
    let counts = in_parallel(threads, |_| -> ferroxfs::Result<u64> {
        let mut count = 0;
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return Ok(count);
            }
            count += bulkstat_group(volume, AgNumber(group), path)?;
        }
    })?;
    Ok(counts.into_iter().sum())
}

/// Lists the inodes of an allocation group. Returns their number.
fn bulkstat_group(volume: &Volume, group: AgNumber, path: BulkPath) -> ferroxfs::Result<u64> {
    let (mut count, mut failure) = (0, None);
    let _ = volume.bulkstat_group(group, AgInode(0), path, |_, metadata| match metadata {
        Ok(metadata) => {
            count += u64::from(metadata.nlink > 0);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failure.map_or(Ok(count), Err)
}

/// Lists directories with the stat data of each file. Returns the sum of the link counts of the
/// files.
fn walk(leaves: &[Node]) -> ferroxfs::Result<u64> {
    let mut count = 0;
    for leaf in leaves {
        for entry in leaf.entries_with_metadata_from(Cookie::START)? {
            // An inode that cannot be shown is missing in the count.
            count += entry?.1.map_or(0, |metadata| u64::from(metadata.nlink));
        }
    }
    Ok(count)
}

/// Lists directories and looks up each file. Returns the sum of the link counts of the files.
fn walk_through(leaves: &[Node]) -> ferroxfs::Result<u64> {
    let mut count = 0;
    for leaf in leaves {
        for entry in leaf.entries()? {
            count += u64::from(entry?.node()?.metadata().nlink);
        }
    }
    Ok(count)
}

fn perform(step: WorkStep, leaves: &[Node], work: &Work) -> ferroxfs::Result<()> {
    if step == WorkStep::Visit {
        let leaf = |number: u64| leaves.get(number as usize % leaves.len());
        for (number, leaf) in work.visits().filter_map(|number| Some((number, leaf(number)?))) {
            std::hint::black_box(leaf.lookup(work.name(number).as_ref())?.metadata());
        }
        return Ok(());
    }
    for (number, leaf) in (0..work.files).zip(leaves.iter().cycle()) {
        let name = work.name(number);
        match step {
            WorkStep::Create => drop(leaf.create(&name, &NewKind::Regular, &CREATION)?),
            WorkStep::Link => leaf.link(&leaf.lookup(name.as_ref())?, work.second_name(number))?,
            WorkStep::Change => {
                let changes = SetAttributes::new().mode(CHANGED_MODE);
                leaf.lookup(name.as_ref())?.set_attributes(&changes)?;
            }
            WorkStep::Remove => {
                leaf.remove_file(&name)?;
                if work.linked {
                    leaf.remove_file(work.second_name(number))?;
                }
            }
            WorkStep::Walk
            | WorkStep::WalkThrough
            | WorkStep::Visit
            | WorkStep::BulkstatPast
            | WorkStep::Bulkstat => {}
        }
    }
    Ok(())
}
