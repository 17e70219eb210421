//! Entries that nobody uses, in the order in which they became idle, with a second chance.

use std::collections::VecDeque;
use std::sync::Arc;

use xfs_sync::{Group, Mutex};

use super::entry::{Entry, Sweep};

/// The most entries that one addition looks at.
const SWEEP_STEPS: usize = 8;

/// The idle entries of a group.
pub(super) struct Idle {
    most: usize,
    queue: Mutex<VecDeque<Arc<Entry>>, Group>,
}

impl Idle {
    pub(super) fn new(most: usize) -> Self {
        Self { most, queue: Mutex::default() }
    }

    /// Adds an entry, and returns those that have to leave the table for it.
    pub(super) fn add(&self, entry: Arc<Entry>) -> Vec<Arc<Entry>> {
        let mut queue = self.queue.lock();
        queue.push_back(entry);
        let mut evicted = Vec::new();
        for _ in 0..SWEEP_STEPS {
            if queue.len() <= self.most {
                break;
            }
            let Some(oldest) = queue.pop_front() else { break };
            match oldest.sweep() {
                Sweep::Unqueued => {}
                Sweep::Again => queue.push_back(oldest),
                Sweep::Evicted => evicted.push(oldest),
            }
        }
        evicted
    }
}
