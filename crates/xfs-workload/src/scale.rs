//! A model of the rate of an operation on more processors than this machine has.
//!
//! Owns: the equations. Does **not** own: where the figures come from, and the tables (`xfs-bench
//! model`).
//!
//! Each thread runs on a processor of its own, and repeats one operation. An operation takes
//! processor time, and visits stations, where one thread is served at a time:
//!
//! ```text
//!  group    the headers of an allocation group, for the time in which a thread holds them
//!  log      what commits do one after the other
//!  memory   a cache line that all threads write; each write brings the line to another processor
//! ```
//!
//! Mean value analysis gives the rate of such a closed network without simulation. The threads of a
//! group share its station; all threads share the other two. Two bounds do not depend on waiting:
//! the bandwidth of the log's device, and that of the memory.

/// The work of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Processor time in nanoseconds, with the work of the volume's own threads.
    pub processor_ns: f64,
    /// The part of `processor_ns` in which the thread holds the headers of an allocation group.
    pub group_ns: f64,
    /// The part of `processor_ns` that commits do one after the other.
    pub log_ns: f64,
    /// Number of writes to the cache line that belongs to the whole volume and is written most.
    pub volume_writes: f64,
    /// Number of bytes written to the log.
    pub log_bytes: f64,
    /// Number of bytes that come from memory or go there, past all caches.
    pub memory_bytes: f64,
}

/// A machine and a volume on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Number of processors, and of threads.
    pub processors: usize,
    /// Number of allocation groups over which the threads are spread.
    pub groups: usize,
    /// Time in nanoseconds in which a cache line goes from one processor to another.
    pub transfer_ns: f64,
    /// Bandwidth of the log's device, in bytes per second.
    pub log_bandwidth: f64,
    /// Bandwidth of the memory, in bytes per second, of all processors together.
    pub memory_bandwidth: f64,
}

/// The reason why an operation is no faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleLimit {
    /// The work itself: twice the processors give nearly twice the rate.
    Work,
    /// Threads wait for the headers of their allocation group.
    Groups,
    /// Threads wait for what commits do one after the other.
    Log,
    /// Threads wait for a cache line that all of them write.
    VolumeMemory,
    /// The log's device takes no more bytes.
    LogBandwidth,
    /// The memory gives no more bytes.
    MemoryBandwidth,
}

impl ScaleLimit {
    /// Returns the name of the limit in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Work => "the work itself",
            Self::Groups => "headers of groups",
            Self::Log => "commits one by one",
            Self::VolumeMemory => "a shared cache line",
            Self::LogBandwidth => "bandwidth of the log",
            Self::MemoryBandwidth => "bandwidth of the memory",
        }
    }

    /// Returns what would remove the limit.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Work => "fewer instructions",
            Self::Groups => "more allocation groups, or inodes and blocks in hand for each thread",
            Self::Log => "completion of commits in parallel",
            Self::VolumeMemory => "fewer writes, each for more operations",
            Self::LogBandwidth => "smaller log items, or a faster device",
            Self::MemoryBandwidth => "smaller inodes in memory, and fewer copies",
        }
    }
}

/// The predicted rate of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Number of operations per second.
    pub rate: f64,
    /// Rate as a part of the rate without any waiting: 1 is perfect.
    pub efficiency: f64,
    /// The limit that costs most.
    pub limit: ScaleLimit,
}

/// The part of the rate without waiting below which a limit is named.
const NEARLY_ALL: f64 = 0.95;
const NS_PER_SECOND: f64 = 1e9;

/// Predicts the rate of an operation.
///
/// # Panics
///
/// Panics if there are no processors or no groups, or if an operation takes no time.
#[must_use]
pub fn predict(demand: &Demand, scale: &Scale) -> Prediction {
    assert!(scale.processors > 0 && scale.groups > 0, "a machine has processors and groups");
    assert!(demand.processor_ns > 0.0, "an operation takes time");
    let threads = scale.processors;
    let transfer = if threads > 1 { scale.transfer_ns } else { 0.0 };
    let whole = threads as f64 / demand.processor_ns;
    let of_group = threads.div_ceil(scale.groups);
    let think = demand.processor_ns - demand.group_ns - demand.log_ns;
    // The time of an operation with the wait for its group.
    let with_group = of_group as f64 / throughput(of_group, think, &[demand.group_ns]);
    let volume_ns = demand.volume_writes * transfer;
    let stations = [demand.log_ns, volume_ns];
    let waiting = throughput(threads, with_group, &stations);
    let alone = |station| throughput(threads, demand.processor_ns - demand.log_ns, station);
    let bandwidth = |bytes: f64, most: f64| match bytes > 0.0 {
        true => most / bytes / NS_PER_SECOND,
        false => f64::INFINITY,
    };
    let bounds = [
        (ScaleLimit::Groups, threads as f64 / (with_group + demand.log_ns)),
        (ScaleLimit::Log, alone(&[demand.log_ns])),
        (ScaleLimit::VolumeMemory, alone(&[volume_ns])),
        (ScaleLimit::LogBandwidth, bandwidth(demand.log_bytes, scale.log_bandwidth)),
        (ScaleLimit::MemoryBandwidth, bandwidth(demand.memory_bytes, scale.memory_bandwidth)),
    ];
    let lowest = bounds.into_iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let (limit, bound) = lowest.expect("there are bounds");
    let rate = waiting.min(bound);
    let efficiency = rate / whole;
    let limit = if efficiency < NEARLY_ALL { limit } else { ScaleLimit::Work };
    Prediction { rate: rate * NS_PER_SECOND, efficiency, limit }
}

/// Returns how long an operation is served at a station, in nanoseconds, if it takes `alone_ns`
/// with one thread, and `threads` threads that share the station reach `rate` operations per
/// second. `machine` is the part of the rate that the machine gives threads that share nothing.
/// Returns 0 if the threads do not wait.
#[must_use]
pub fn served_ns(alone_ns: f64, threads: usize, rate: f64, machine: f64) -> f64 {
    let wanted = rate / machine.clamp(f64::MIN_POSITIVE, 1.0) / NS_PER_SECOND;
    let (mut least, mut most) = (0.0, alone_ns);
    // Each step halves the interval: 50 of them are exact.
    for _ in 0..50 {
        let middle = (least + most) / 2.0;
        match throughput(threads, alone_ns - middle, &[middle]) > wanted {
            true => least = middle,
            false => most = middle,
        }
    }
    // Without waiting, a rate is a little below the whole one by chance.
    if wanted >= NEARLY_ALL * threads as f64 / alone_ns { 0.0 } else { least }
}

/// Returns the number of operations per nanosecond of `threads` threads, by mean value analysis.
/// Each operation takes `think_ns`, and is served at each station for the time in `stations`.
fn throughput(threads: usize, think_ns: f64, stations: &[f64]) -> f64 {
    let mut waiting = vec![0.0; stations.len()];
    let mut rate = 0.0;
    for count in 1..=threads {
        // A thread finds those at a station that would be there without it.
        let times: Vec<f64> =
            stations.iter().zip(&waiting).map(|(served, before)| served * (1.0 + before)).collect();
        rate = count as f64 / (think_ns + times.iter().sum::<f64>());
        waiting = times.into_iter().map(|time| rate * time).collect();
    }
    rate
}

#[cfg(test)]
mod tests;
