//! Fills a mounted volume with inodes, extents, directories and attributes in every format.
//!
//! The functions of this module use the kernel, by plain system calls. A seed determines names,
//! sizes and contents, for any geometry. Features that a geometry does not support, such as shared
//! extents without reflink, are left out.

mod aging;
mod attributes;
mod directories;
mod files;
mod random;
mod special;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use aging::{age, fill};
pub use random::Random;

use crate::error::{Context, OracleError};

/// A folder that is being filled, with its random number generator.
#[derive(Debug)]
pub(crate) struct Populate {
    folder: PathBuf,
    block_bytes: u64,
    random: Random,
}

/// Fills the volume that is mounted at `root`.
pub fn populate(root: &Path, seed: u64) -> Result<(), OracleError> {
    let stat = rustix::fs::statvfs(root).context(|| root.display().to_string())?;
    let mut populate =
        Populate { folder: root.into(), block_bytes: stat.f_frsize, random: Random::new(seed) };
    directories::populate(&mut populate.inside("directories")?)?;
    attributes::populate(&mut populate.inside("attributes")?)?;
    files::populate(&mut populate.inside("files")?)?;
    special::populate(&mut populate.inside("special")?)
}

impl Populate {
    /// Creates a folder within this folder. The new folder has its own random number generator, so
    /// that the contents of one folder do not depend on other folders.
    fn inside(&mut self, name: &str) -> Result<Self, OracleError> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).context(|| folder.display().to_string())?;
        let random = Random::new(self.random.next());
        Ok(Self { folder, block_bytes: self.block_bytes, random })
    }

    fn path(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.folder.join(OsStr::from_bytes(name.as_ref()))
    }

    /// Creates an empty file.
    fn touch(&self, name: impl AsRef<[u8]>) -> Result<PathBuf, OracleError> {
        self.write(name, b"")
    }

    /// Creates a file with these contents.
    fn write(&self, name: impl AsRef<[u8]>, contents: &[u8]) -> Result<PathBuf, OracleError> {
        let path = self.path(name);
        fs::write(&path, contents).context(|| path.display().to_string())?;
        Ok(path)
    }

    fn remove(&self, name: impl AsRef<[u8]>) -> Result<(), OracleError> {
        let path = self.path(name);
        fs::remove_file(&path).context(|| path.display().to_string())
    }
}
