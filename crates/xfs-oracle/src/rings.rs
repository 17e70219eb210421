//! Turns the kernel's setting for FUSE over io_uring on and off. The setting is off by default.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Context, OracleError};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// The lock file of this setting. A process holds the lock while the setting has the value that
/// this process needs.
const LOCK: &str = "ferroxfs-fuse-rings.lock";

/// A guard that holds the setting at a value and restores the old value on drop. A mount reads the
/// setting only when it begins.
#[derive(Debug)]
pub struct FuseRings {
    before: String,
    _lock: File,
}

impl FuseRings {
    /// Turns the setting on.
    ///
    /// # Errors
    ///
    /// [`OracleError::Unavailable`] if the kernel has no such setting, or the setting cannot be
    /// changed.
    pub fn on() -> Result<Self, OracleError> {
        Self::hold("Y")
    }

    /// Turns the setting off.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`on`](Self::on).
    pub fn off() -> Result<Self, OracleError> {
        Self::hold("N")
    }

    fn hold(position: &str) -> Result<Self, OracleError> {
        let unavailable = |why: String| OracleError::Unavailable(format!("{SWITCH}: {why}"));
        if !Path::new(SWITCH).exists() {
            return Err(unavailable("this kernel has no FUSE over io_uring".to_owned()));
        }
        let path = std::env::temp_dir().join(LOCK);
        let options = OpenOptions::new().create(true).append(true).clone();
        let lock = options.open(&path).context(|| path.display().to_string())?;
        flock(&lock, FlockOperation::LockExclusive).context(|| path.display().to_string())?;
        let before = fs::read_to_string(SWITCH).context(|| SWITCH.to_owned())?;
        fs::write(SWITCH, position).map_err(|error| unavailable(error.to_string()))?;
        Ok(Self { before: before.trim().to_owned(), _lock: lock })
    }
}

impl Drop for FuseRings {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, &self.before) {
            eprintln!("cannot restore {SWITCH}: {error}");
        }
    }
}
