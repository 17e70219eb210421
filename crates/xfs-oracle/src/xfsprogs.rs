//! The programs of xfsprogs: the version that is installed on the machine, and a newer version that
//! `cargo xtask oracles` has unpacked.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::OracleError;
use crate::run::run;

/// One version of xfsprogs.
#[derive(Debug, Clone)]
pub struct Xfsprogs {
    /// The folder with the unpacked packages, or `None` for the system's own programs.
    root: Option<PathBuf>,
}

impl Xfsprogs {
    /// Returns the programs that are installed on this machine.
    pub fn system() -> Result<Self, OracleError> {
        let system = Self { root: None };
        system.version()?;
        Ok(system)
    }

    /// Returns the newer programs that `cargo xtask oracles` has unpacked, with the C library for
    /// which they were built. `cargo xtask test` puts their folder into `FERROXFS_ORACLES`.
    pub fn newer() -> Result<Self, OracleError> {
        let unavailable =
            || OracleError::Unavailable("needs the programs of `cargo xtask oracles`".to_owned());
        let folder = std::env::var_os("FERROXFS_ORACLES").ok_or_else(unavailable)?;
        let newer = Self { root: Some(Path::new(&folder).join("xfsprogs-sid")) };
        newer.version()?;
        Ok(newer)
    }

    /// Returns the version, as `mkfs.xfs -V` prints it.
    pub fn version(&self) -> Result<String, OracleError> {
        let output = run(self.command("mkfs.xfs").arg("-V"))
            .map_err(|error| OracleError::Unavailable(format!("cannot run mkfs.xfs: {error}")))?;
        let version = output.split_whitespace().last().unwrap_or_default();
        Ok(version.to_owned())
    }

    /// Returns a command that starts one of the programs, for example `mkfs.xfs` or `xfs_repair`.
    pub fn command(&self, program: &str) -> Command {
        let Some(root) = &self.root else { return Command::new(program) };
        // The programs need a C library that this system may lack. Their own loader, with the
        // unpacked libraries, runs them without touching the system's.
        let libraries = root.join("usr/lib").join(TRIPLE);
        let mut command = Command::new(libraries.join(LOADER));
        command.arg("--library-path").arg(&libraries).arg(root.join("usr/sbin").join(program));
        command
    }
}

#[cfg(target_arch = "aarch64")]
const TRIPLE: &str = "aarch64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const LOADER: &str = "ld-linux-aarch64.so.1";
#[cfg(not(target_arch = "aarch64"))]
const TRIPLE: &str = "x86_64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const LOADER: &str = "ld-linux-x86-64.so.2";
