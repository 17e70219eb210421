//! Which files have something to write, or blocks that they do not need.
//!
//! Owns: the list of them, by group, so that a sync, the thread that writes what is old, and who finds
//! no space need not look at every inode. Does **not** own what is written
//! ([`contents`](super::contents)).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use xfs_buffer::{Error, Result};
use xfs_format::Geometry;
use xfs_sync::{AtomicU64, CachePadded, Condvar, Group, Mutex, Ordering, Volume};

use crate::table::Entry;

/// Between two looks for what is old.
const TICK: Duration = Duration::from_secs(5);

type Files = Mutex<HashMap<u64, Arc<Entry>>, Group>;

/// Files of a volume that have something to write.
pub(crate) struct Unsettled {
    groups: Box<[CachePadded<Files>]>,
    tick: AtomicU64<Volume>,
    closed: Mutex<bool, Volume>,
    closing: Condvar<Volume>,
    /// What a handle that was dropped could tell nobody: the first of that.
    failure: Mutex<Option<Error>, Volume>,
}

impl Unsettled {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self {
            groups: geometry.groups().map(|_| CachePadded::default()).collect(),
            tick: AtomicU64::new(0),
            closed: Mutex::new(false),
            closing: Condvar::new(),
            failure: Mutex::new(None),
        }
    }

    fn group(&self, geometry: &Geometry, entry: &Entry) -> Option<&Files> {
        let (group, _) = geometry.split_inode(entry.number())?;
        self.groups.get(group.0 as usize).map(|files| &**files)
    }

    pub(crate) fn add(&self, geometry: &Geometry, entry: &Arc<Entry>) {
        if let Some(files) = self.group(geometry, entry) {
            files.lock().insert(entry.number().0, Arc::clone(entry));
        }
    }

    pub(crate) fn remove(&self, geometry: &Geometry, entry: &Arc<Entry>) {
        if let Some(files) = self.group(geometry, entry) {
            files.lock().remove(&entry.number().0);
        }
    }

    /// The files that are in the list now.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        let mut all = Vec::new();
        for files in &self.groups {
            all.extend(files.lock().values().map(Arc::clone));
        }
        all
    }

    /// Counts how often it was looked for what is old.
    pub(crate) fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts one more look, and returns the count.
    pub(crate) fn next_tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits for the next look; `false` once the volume is closed.
    pub(crate) fn wait(&self) -> bool {
        let mut closed = self.closed.lock();
        if !*closed {
            self.closing.wait_for(&mut closed, TICK);
        }
        !*closed
    }

    /// Lets [`wait`](Self::wait) return.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.closing.notify_all();
    }

    /// Keeps an error that nobody was told of.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }

    /// The error of a file whose handle was dropped, once.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}
