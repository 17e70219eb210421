//! The destination of an answer: standard output, or a file that appears when it is complete.
//!
//! A new file is staged beside the destination as `.ferroxfs-query-PID-N`, and renamed. An existing
//! regular file is replaced in one step, with its mode and owner. Everything else is refused by
//! name: devices, pipes, files with several names, and files in the dataset itself.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Stdout, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid, fchown};

use crate::failure::{Exit, Failure, shown};

/// The permissions of every file that is no special one.
const MODE: u32 = 0o7777;

/// The destination of an answer.
pub(crate) enum Output {
    Standard(BufWriter<Stdout>),
    File(StagedFile),
}

/// A file that gets its name when it is complete. Dropped before that, it is removed.
pub(crate) struct StagedFile {
    file: BufWriter<File>,
    staged: PathBuf,
    destination: PathBuf,
    is_published: bool,
}

impl Output {
    /// Opens the destination that the user names. `dataset` is the directory that is read.
    pub(crate) fn open(path: Option<&Path>, dataset: &Path) -> Result<Self, Failure> {
        match path {
            Some(path) if path != Path::new("-") => StagedFile::new(path, dataset).map(Self::File),
            _ => Ok(Self::Standard(BufWriter::with_capacity(1 << 16, io::stdout()))),
        }
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write_all(bytes).map_err(|error| self.failed(error))
    }

    /// Completes the output. A file gets its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush().map_err(|error| self.failed(error))?;
        match self {
            Self::Standard(_) => Ok(()),
            Self::File(mut staged) => staged.publish(),
        }
    }

    fn failed(&self, error: io::Error) -> Failure {
        match self {
            Self::Standard(_) => Failure::file("standard output".as_ref())(error),
            Self::File(staged) => Failure::file(&staged.destination)(error),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(writer) => writer.write(bytes),
            Self::File(staged) => staged.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(writer) => writer.flush(),
            Self::File(staged) => staged.file.flush(),
        }
    }
}

impl StagedFile {
    fn new(path: &Path, dataset: &Path) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::new(Exit::Failed, format!("{}: {why}", shown(path)));
        // A symbolic link is followed: the file at its end is replaced.
        let present = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::file(path)(error)),
        };
        let destination = match &present {
            Some(metadata) if !metadata.is_file() => return Err(refused("not a regular file")),
            Some(metadata) if metadata.nlink() > 1 => {
                return Err(refused("has several names, and replacing it would divide them"));
            }
            Some(_) => path.canonicalize().map_err(Failure::file(path))?,
            None if path.is_symlink() => return Err(refused("a symbolic link that leads nowhere")),
            None => path.to_owned(),
        };
        let Some(name) = destination.file_name() else {
            return Err(refused("not a name of a file"));
        };
        let folder = destination.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(Failure::file(folder))?;
        let is_table = ["inodes", "scans"].iter().any(|it| folder.starts_with(dataset.join(it)));
        if is_table {
            return Err(refused("a place in the dataset that is read"));
        }
        let destination = folder.join(name);
        let (file, staged) = stage(&folder)?;
        let result = Self { file: BufWriter::new(file), staged, destination, is_published: false };
        match present {
            Some(metadata) => result.keep_properties(&metadata).map(|()| result),
            None => Ok(result),
        }
    }

    /// Gives the staged file the owner and the mode of the one that it will replace.
    fn keep_properties(&self, present: &fs::Metadata) -> Result<(), Failure> {
        let file = self.file.get_ref();
        let own = file.metadata().map_err(Failure::file(&self.staged))?;
        if (own.uid(), own.gid()) != (present.uid(), present.gid()) {
            let ids = (Uid::from_raw(present.uid()), Gid::from_raw(present.gid()));
            fchown(file, Some(ids.0), Some(ids.1)).map_err(|error| {
                let message =
                    format!("{}: its owner cannot be kept: {error}", shown(&self.destination));
                Failure::new(Exit::Failed, message).hint("remove the file, or choose another name")
            })?;
        }
        let mode = Permissions::from_mode(present.mode() & MODE);
        file.set_permissions(mode).map_err(Failure::file(&self.staged))
    }

    fn publish(&mut self) -> Result<(), Failure> {
        fs::rename(&self.staged, &self.destination).map_err(Failure::file(&self.destination))?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_published {
            // The run has failed already, and reports that.
            _ = fs::remove_file(&self.staged);
        }
    }
}

/// Creates a staged file in a folder.
fn stage(folder: &Path) -> Result<(File, PathBuf), Failure> {
    for number in 0..1000 {
        let path = folder.join(format!(".ferroxfs-query-{}-{number}", std::process::id()));
        match File::options().write(true).create_new(true).mode(0o666).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::file(&path)(error)),
        }
    }
    Err(Failure::new(Exit::Failed, format!("{}: has 1000 staged files", shown(folder))))
}

#[cfg(test)]
mod tests;
