//! What the figures were measured on.

use std::fs;

use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::processors::Processors;

/// What the figures were measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// System and version, as uname(1) says them.
    pub kernel: String,
    /// The architecture.
    pub architecture: String,
    /// What the processors call themselves, where the system says it.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory, where the system says it.
    pub memory_bytes: Option<u64>,
    /// How many others wanted the processors in the minute before, where the system says it.
    pub load: Option<String>,
}

impl Machine {
    /// This one, now.
    ///
    /// # Errors
    ///
    /// If the system does not say how many processors there are.
    pub fn this() -> Result<Self, WorkloadError> {
        let system = uname();
        let word = |word: &std::ffi::CStr| word.to_string_lossy().into_owned();
        Ok(Self {
            kernel: format!("{} {}", word(system.sysname()), word(system.release())),
            architecture: word(system.machine()),
            processor: line_of("/proc/cpuinfo", "model name"),
            processors: Processors::available()?.count(),
            memory_bytes: line_of("/proc/meminfo", "MemTotal").and_then(|text| kibibytes(&text)),
            load: load(),
        })
    }
}

/// What stands behind the colon of the first line that begins so.
fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn kibibytes(text: &str) -> Option<u64> {
    let number = text.strip_suffix(" kB")?;
    number.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

fn load() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next().map(str::to_owned)
}
