//! An output file that is there whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file under a temporary name beside the one that it is to have.
///
/// Dropped before [`commit`](Self::commit), it removes itself.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    is_committed: bool,
}

impl OutputFile {
    /// Makes the temporary file. What stands at `target` stays until the commit.
    ///
    /// # Errors
    ///
    /// What the host says.
    pub fn create(target: &Path) -> io::Result<Self> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(temporary_name);
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file, temporary, target: target.to_owned(), is_committed: false })
    }

    /// The open file, to write to.
    ///
    /// # Errors
    ///
    /// What the host says.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Where the temporary file is: a caller that is about to end by a signal may remove it.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// What the host says; the temporary file is removed then.
    pub fn commit(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.target)?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // There is nobody to tell.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
