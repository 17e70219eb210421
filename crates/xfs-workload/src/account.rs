//! An account of each operation: the instructions that valgrind counts, by function.
//!
//! Owns: running a program under callgrind, reading its profiles, and the assignment of functions
//! to layers and kinds of work. Does **not** own: the operations (`operations`), and deciding
//! whether the figures are good.
//!
//! callgrind writes one profile at each mark between operations, so one run counts all operations.
//! A profile is the sum of all threads, so it includes the threads of the log.

mod profile;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::error::WorkloadError;
use crate::operations::Operation;
use profile::Profile;

/// The work of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationAccount {
    /// The operation.
    pub operation: Operation,
    /// Number of times that it was performed.
    pub times: u64,
    /// The instructions of all times, by function.
    functions: BTreeMap<String, u64>,
    /// The calls that allocated memory, of all times.
    allocations: u64,
    /// The cache lines that came from memory, of all times.
    lines_from_memory: u64,
}

/// Whether valgrind simulates the caches of the processor, which takes twice the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// No cache is simulated, and no line comes from memory.
    Ignored,
    /// The caches of this machine's processor are simulated.
    Simulated,
}

impl OperationAccount {
    /// Returns the instructions of one operation.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.each(self.functions.values().sum())
    }

    /// Returns the allocations of memory of one operation.
    #[must_use]
    pub fn allocations(&self) -> f64 {
        self.allocations as f64 / self.times.max(1) as f64
    }

    /// Returns the number of bytes of one operation that came from memory, past all simulated
    /// caches. 0 if caches were ignored.
    #[must_use]
    pub fn memory_bytes(&self) -> f64 {
        const LINE_BYTES: f64 = 64.0;
        self.lines_from_memory as f64 * LINE_BYTES / self.times.max(1) as f64
    }

    /// Returns the instructions of one operation by the names that `group` gives to functions.
    pub fn by(&self, group: impl Fn(&str) -> &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (function, count) in &self.functions {
            *sums.entry(group(function).to_owned()).or_insert(0) += count;
        }
        sums.into_iter().map(|(name, sum)| (name, self.each(sum))).collect()
    }

    fn each(&self, sum: u64) -> u64 {
        sum / self.times.max(1)
    }
}

/// Runs a command under callgrind and returns the account of each operation. The command calls
/// [`run_operations`](crate::run_operations), and prints the numbers that this returns, one in a
/// line. The profiles are written to `folder`.
///
/// # Errors
///
/// [`WorkloadError::Unavailable`] if valgrind is not installed or the command fails, or the error
/// of reading a profile.
pub fn account(
    command: &Command,
    folder: &Path,
    caches: Caches,
) -> Result<Vec<OperationAccount>, WorkloadError> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
    valgrind.args(["--dump-line=no", "--dump-before=*operation_boundary*"]);
    if caches == Caches::Simulated {
        valgrind.arg("--cache-sim=yes");
    }
    valgrind.arg(format!("--callgrind-out-file={}", folder.join(PROFILE).display()));
    valgrind.arg(command.get_program()).args(command.get_args());
    let unavailable = |why: String| WorkloadError::Unavailable { what: WHAT.to_owned(), why };
    let output = valgrind.output().map_err(|error| unavailable(format!("valgrind: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(unavailable(format!("valgrind ended with {}: {text}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<u64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    if times.len() != Operation::ALL.len() {
        return Err(unavailable(format!("the program did not print the operations: {text}")));
    }
    let operations = Operation::ALL.into_iter().zip(times).enumerate();
    operations
        .map(|(index, (operation, times))| {
            // The profile up to the first mark of an operation is not that of the operation.
            let path = folder.join(format!("{PROFILE}.{}", 2 * index + 2));
            let text = std::fs::read_to_string(&path).map_err(WorkloadError::file(&path))?;
            let Profile { functions, allocations, lines_from_memory } = Profile::decode(&text);
            Ok(OperationAccount { operation, times, functions, allocations, lines_from_memory })
        })
        .collect()
}

const PROFILE: &str = "profile";
const WHAT: &str = "instructions of operations";

/// Returns the layer of a function: the crate whose name occurs first in the function's name.
#[must_use]
pub fn layer(function: &str) -> &str {
    let starts = function.match_indices("xfs_").chain(function.match_indices("ferroxfs::"));
    match starts.map(|(start, _)| start).min().and_then(|start| function.get(start..)) {
        Some(rest) => rest.split("::").next().unwrap_or(rest),
        None if MEMORY.iter().any(|name| function.contains(name)) => "memory",
        None => "other",
    }
}

/// Returns the kind of work of a function, by the words of its name.
#[must_use]
pub fn kind(function: &str) -> &'static str {
    let mut name = function.to_owned();
    for word in OTHER_WORDS {
        name = name.replace(word, "");
    }
    let is_of = |names: &[&str]| names.iter().any(|part| name.contains(part));
    KINDS.iter().find(|(_, names)| is_of(names)).map_or("other", |(kind, _)| kind)
}

const MEMORY: [&str; 6] = ["mem", "malloc", "free", "mi_", "alloc", "bcmp"];

/// Words that contain a part of a name of `KINDS`, and stand for something else.
const OTHER_WORDS: [&str; 5] = ["xfs_format", "block", "Block", "clock", "checkpoint"];

/// The kinds of work, each with parts of the names of its functions. The first that fits counts.
const KINDS: [(&str, &[&str]); 9] = [
    ("copying", &["memcpy", "memmove"]),
    ("zeroing", &["memset"]),
    ("comparing", &["memcmp", "bcmp"]),
    ("checksums", &["crc32"]),
    ("allocating", &["mi_", "malloc", "calloc", "realloc", "_rust_alloc", "_rust_dealloc"]),
    ("locking", &["lock", "latch", "Latch", "xfs_sync::", "pthread", "parking"]),
    ("verifying", &["verify", "check", "decode"]),
    ("searching", &["search", "seek", "lookup", "find", "cursor", "hash", "partition_point"]),
    ("formatting", &["format", "encode", "region", "Region"]),
];

#[cfg(test)]
mod tests;
