//! Statistics of a mount: requests, failures, durations, and bytes of file contents.

use std::fmt::Write;
use std::time::Instant;

use ferroxfs::stats::VolumeStats;
use rustix::io::Errno;
use xfs_sync::{AtomicU64, Ordering, Slot, SlotCounters, Slots};

use crate::transport::wire::Opcode;

/// Upper bounds of the histogram's buckets in nanoseconds: each is four times the previous one.
const CLASSES_NS: [u64; 12] = [
    1_000,
    4_000,
    16_000,
    64_000,
    256_000,
    1_024_000,
    4_096_000,
    16_384_000,
    65_536_000,
    262_144_000,
    1_048_576_000,
    u64::MAX,
];
const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// Counters of those requests of one opcode that the threads of one per-CPU slot have served.
struct RequestCounters {
    failures: AtomicU64<Slot>,
    nanoseconds: AtomicU64<Slot>,
    classes: [AtomicU64<Slot>; CLASSES_NS.len()],
}

impl RequestCounters {
    fn new() -> Self {
        let classes = std::array::from_fn(|_| AtomicU64::new(0));
        Self { failures: AtomicU64::new(0), nanoseconds: AtomicU64::new(0), classes }
    }
}

/// Whether file contents were read or written.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Read,
    Written,
}

/// Counters of all requests, separate for each per-CPU slot.
pub(crate) struct Statistics {
    requests: Slots<Box<[RequestCounters]>>,
    bytes: SlotCounters<2>,
}

/// Counters of one opcode, summed over all per-CPU slots.
#[derive(Clone, Copy, Default)]
struct RequestSums {
    failures: u64,
    nanoseconds: u64,
    classes: [u64; CLASSES_NS.len()],
}

impl RequestSums {
    /// Returns the number of requests with this opcode.
    fn count(&self) -> u64 {
        self.classes.iter().sum()
    }
}

impl Statistics {
    pub(crate) fn new() -> Self {
        let requests = Slots::new(|| Opcode::ALL.iter().map(|_| RequestCounters::new()).collect());
        Self { requests, bytes: SlotCounters::new() }
    }

    /// Counts bytes of file contents.
    #[doc(alias = "xs_read_bytes")]
    #[doc(alias = "xs_write_bytes")]
    pub(crate) fn add_bytes(&self, direction: Direction, count: usize) {
        self.bytes.add(direction as usize, count as u64);
    }

    /// Runs `work`, which answers a request. Counts the request and its duration. ENOSYS does not
    /// count as a failure: it asks the kernel to send no such requests.
    pub(crate) fn measure(
        &self,
        opcode: Opcode,
        work: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let start = Instant::now();
        let outcome = work();
        let nanoseconds = start.elapsed().as_nanos() as u64;
        if let Some(counters) = self.requests.mine().get(opcode as usize) {
            let class = CLASSES_NS.iter().position(|end| nanoseconds <= *end);
            if let Some(count) = class.and_then(|class| counters.classes.get(class)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            counters.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
            let is_failure = outcome.is_err_and(|errno| errno != Errno::NOSYS);
            counters.failures.fetch_add(u64::from(is_failure), Ordering::Relaxed);
        }
        outcome
    }

    fn sums(&self, opcode: Opcode) -> RequestSums {
        let mut sums = RequestSums::default();
        for slot in self.requests.iter() {
            let Some(counters) = slot.get(opcode as usize) else { continue };
            sums.failures += counters.failures.load(Ordering::Relaxed);
            sums.nanoseconds += counters.nanoseconds.load(Ordering::Relaxed);
            for (sum, class) in sums.classes.iter_mut().zip(&counters.classes) {
                *sum += class.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Returns all counters in the text format of Prometheus. Opcodes without requests are left
    /// out.
    pub(crate) fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for line in [
            "# HELP ferroxfs_request_seconds Time from taking a request to its answer.",
            "# TYPE ferroxfs_request_seconds histogram",
        ] {
            let _ = writeln!(text, "{line}");
        }
        let sums = Opcode::ALL.iter().map(|opcode| (opcode.name(), self.sums(*opcode)));
        let asked: Vec<_> = sums.filter(|(_, sums)| sums.count() > 0).collect();
        // Writing to a string does not fail. All lines of one metric must be adjacent.
        for (name, sums) in &asked {
            let _ = add_durations(&mut text, name, sums);
        }
        for line in [
            "# HELP ferroxfs_request_failures_total Requests that were answered by an error.",
            "# TYPE ferroxfs_request_failures_total counter",
        ] {
            let _ = writeln!(text, "{line}");
        }
        for (name, RequestSums { failures, .. }) in &asked {
            let _ =
                writeln!(text, "ferroxfs_request_failures_total{{request=\"{name}\"}} {failures}");
        }
        for (name, direction) in
            [("read_bytes_total", Direction::Read), ("written_bytes_total", Direction::Written)]
        {
            add_figure(&mut text, name, "counter", self.bytes.sum(direction as usize));
        }
        text
    }
}

/// Appends the volume's own counters to `text`. The counters of file locks are left out, because
/// the kernel keeps the file locks of a mount.
pub(crate) fn add_volume(text: &mut String, volume: &VolumeStats) {
    let (lookups, inodes) = (&volume.inode_lookups, &volume.inodes);
    let (buffers, log) = (&volume.buffers, &volume.log);
    let (names, attributes) = (&volume.directories, &volume.attributes);
    let remembered = &volume.dentries;
    let (transactions, checkpoints) = (&volume.transactions, &volume.checkpoints);
    let (space, write_back, maps) = (&volume.log_space, &volume.write_back, &volume.extent_maps);
    for (name, kind, value) in [
        ("inode_lookups_total", "counter", lookups.attempts),
        ("inode_hits_total", "counter", lookups.found),
        ("inode_recycles_total", "counter", lookups.recycled),
        ("inode_reads_total", "counter", lookups.missed),
        ("inode_duplicate_reads_total", "counter", lookups.duplicates),
        ("inode_evictions_total", "counter", lookups.reclaims),
        ("inode_frees_total", "counter", inodes.removed),
        ("inodes_in_memory", "gauge", inodes.active),
        ("buffer_reads_total", "counter", buffers.reads),
        ("buffer_misses_total", "counter", buffers.missed),
        ("buffer_evictions_total", "counter", buffers.evicted),
        ("buffers", "gauge", buffers.buffers),
        ("buffer_bytes", "gauge", buffers.memory_bytes),
        ("commits_total", "counter", log.commits),
        ("synchronous_commits_total", "counter", transactions.synchronous),
        ("empty_transactions_total", "counter", transactions.empty),
        ("checkpoints_total", "counter", checkpoints.written),
        ("checkpoint_bytes_total", "counter", checkpoints.bytes),
        ("gathered_items", "gauge", checkpoints.gathered_items),
        ("gathered_bytes", "gauge", checkpoints.gathered_bytes),
        ("log_writes_total", "counter", log.writes),
        ("log_bytes_total", "counter", log.written_bytes),
        ("log_buffer_waits_total", "counter", log.buffer_waits),
        ("log_forces_total", "counter", log.forces),
        ("log_force_waits_total", "counter", log.forces_waited),
        ("log_space_waits_total", "counter", space.waits),
        ("log_reserved_bytes", "gauge", space.reserved_bytes),
        ("log_used_bytes", "gauge", space.used_bytes),
        ("write_back_walks_total", "counter", write_back.walks),
        ("write_back_items_total", "counter", write_back.started),
        ("write_back_pinned_total", "counter", write_back.pinned),
        ("write_back_locked_total", "counter", write_back.locked),
        ("write_back_flushing_total", "counter", write_back.flushing),
        ("unplaced_items", "gauge", write_back.unplaced_items),
        ("map_reads_total", "counter", maps.reads),
        ("map_writes_total", "counter", maps.writes),
        ("map_unmaps_total", "counter", maps.unmaps),
        ("map_insertions_total", "counter", maps.insertions),
        ("map_deletions_total", "counter", maps.deletions),
        ("name_lookups_total", "counter", names.lookups),
        ("names_added_total", "counter", names.added),
        ("names_removed_total", "counter", names.removed),
        ("listings_total", "counter", names.listings),
        ("remembered_names", "gauge", remembered.cached),
        ("remembered_absent_names", "gauge", remembered.negative),
        ("attribute_reads_total", "counter", attributes.reads),
        ("attributes_set_total", "counter", attributes.set),
        ("attributes_removed_total", "counter", attributes.removed),
        ("attribute_listings_total", "counter", attributes.listings),
    ] {
        add_figure(text, name, kind, value);
    }
}

fn add_figure(text: &mut String, name: &str, kind: &str, value: u64) {
    // Writing to a string does not fail.
    let _ = write!(text, "# TYPE ferroxfs_{name} {kind}\nferroxfs_{name} {value}\n");
}

fn add_durations(text: &mut String, name: &str, sums: &RequestSums) -> std::fmt::Result {
    let count = sums.count();
    let mut below = 0;
    for (class, end) in sums.classes.iter().zip(CLASSES_NS) {
        below += class;
        let end = match end {
            u64::MAX => "+Inf".to_owned(),
            end => (end as f64 / NANOSECONDS_PER_SECOND).to_string(),
        };
        writeln!(
            text,
            "ferroxfs_request_seconds_bucket{{request=\"{name}\",le=\"{end}\"}} {below}"
        )?;
    }
    let seconds = sums.nanoseconds as f64 / NANOSECONDS_PER_SECOND;
    writeln!(text, "ferroxfs_request_seconds_sum{{request=\"{name}\"}} {seconds}")?;
    writeln!(text, "ferroxfs_request_seconds_count{{request=\"{name}\"}} {count}")
}

#[cfg(test)]
mod tests;
