//! A profile that callgrind wrote, without compressed names and positions.
//!
//! ```text
//!  fn=NAME            the function of the lines that follow
//!  0 COUNT            instructions of that function itself
//!  cfn=NAME           the function that it calls
//!  calls=TIMES 0      how often
//!  0 COUNT            instructions of the callee, which count there
//! ```

use std::collections::BTreeMap;

/// The counts of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// Instructions by function, without those of its callees.
    pub(super) functions: BTreeMap<String, u64>,
    /// Number of calls that allocated memory.
    pub(super) allocations: u64,
}

/// The functions of the allocator that Rust programs call.
const ALLOCATORS: [&str; 3] = ["mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"];

impl Profile {
    pub(super) fn decode(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut function, mut callee) = (String::new(), "");
        let mut is_callee = false;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = name.to_owned();
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = name;
            } else if let Some(calls) = line.strip_prefix("calls=") {
                let times = calls.split(' ').next().and_then(|times| times.parse().ok());
                if ALLOCATORS.contains(&callee) {
                    profile.allocations += times.unwrap_or(0);
                }
                is_callee = true;
            } else if let Some(count) = cost(line) {
                if !is_callee {
                    *profile.functions.entry(function.clone()).or_insert(0) += count;
                }
                is_callee = false;
            }
        }
        profile
    }
}

/// Returns the instructions of a line of costs, or `None` for another line.
fn cost(line: &str) -> Option<u64> {
    let (position, count) = line.split_once(' ')?;
    position.parse::<u64>().ok()?;
    count.trim().parse().ok()
}
