//! The machine on which a run takes place: its processors, memory, kernel and load.

use std::fs;

use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::processors::Processors;

/// The machine on which the figures were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name and version of the operating system, as in uname(1).
    pub kernel: String,
    /// Name of the processor architecture.
    pub architecture: String,
    /// Model name of the processors, if known.
    pub processor: Option<String>,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Size of the memory in bytes, if known.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute, if known.
    pub load: Option<String>,
}

impl Machine {
    /// Returns a description of this machine at present.
    ///
    /// # Errors
    ///
    /// The system's error if the number of processors is unknown.
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

/// Returns the text after the colon in the first line that starts with `key`, in the file at
/// `path`. `None` if there is no such line.
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
