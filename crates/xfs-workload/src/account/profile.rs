//! A profile that callgrind wrote, without compressed names and positions.
//!
//! ```text
//!  fn=NAME            the function of the lines that follow
//!  0 COUNT            instructions of that function itself
//!  cfn=NAME           the function that it calls
//!  calls=TIMES 0      how often
//!  0 COUNT            instructions of the callee, which count there
//! ```
//!
//! If callgrind simulates caches, more counts follow the first one. The line `events:` names them.

use std::collections::BTreeMap;

/// The counts of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// Instructions by function, without those of its callees.
    pub(super) functions: BTreeMap<String, u64>,
    /// Number of calls that allocated memory.
    pub(super) allocations: u64,
    /// Number of cache lines that came from memory, past all simulated caches.
    pub(super) lines_from_memory: u64,
}

/// The events that fetch a cache line from memory: for an instruction, a read and a write.
const FROM_MEMORY: [&str; 3] = ["ILmr", "DLmr", "DLmw"];

/// The functions of the allocator that Rust programs call.
const ALLOCATORS: [&str; 6] = [
    "mi_malloc",
    "mi_malloc_aligned",
    "mi_zalloc",
    "mi_zalloc_aligned",
    "mi_realloc",
    "mi_realloc_aligned",
];

impl Profile {
    pub(super) fn decode(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut function, mut callee) = (String::new(), "");
        let mut is_callee = false;
        let mut events = Vec::new();
        for line in text.lines() {
            if let Some(names) = line.strip_prefix("events: ") {
                events = names.split_whitespace().collect();
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = name.to_owned();
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = name;
            } else if let Some(calls) = line.strip_prefix("calls=") {
                let times = calls.split(' ').next().and_then(|times| times.parse().ok());
                if ALLOCATORS.contains(&callee) {
                    profile.allocations += times.unwrap_or(0);
                }
                is_callee = true;
            } else if let Some((count, others)) = cost(line) {
                if !is_callee {
                    *profile.functions.entry(function.clone()).or_insert(0) += count;
                    let others = events.iter().skip(1).zip(others);
                    let fetched = others.filter(|(event, _)| FROM_MEMORY.contains(event));
                    profile.lines_from_memory += fetched.map(|(_, count)| count).sum::<u64>();
                }
                is_callee = false;
            }
        }
        profile
    }
}

/// Returns the instructions of a line of costs, and its other counts. callgrind leaves out zeros at
/// the end. `None` for another line.
fn cost(line: &str) -> Option<(u64, impl Iterator<Item = u64>)> {
    let mut numbers = line.split_whitespace().map(str::parse::<u64>);
    let (_position, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((count, numbers.map_while(Result::ok)))
}
