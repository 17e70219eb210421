//! The undo file on the host: the choice of its path, and making it durable.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, StagedFile};
use crate::sandbox::Reach;
use crate::terminal::names;

/// The suffix of an undo file beside its image.
const SUFFIX: &str = ".undo";

/// The place of an undo file. The file has no name before [`publish`](Self::publish), so a run that
/// does not write to the volume leaves no file.
pub(super) struct UndoPlace {
    path: PathBuf,
    staged: StagedFile,
    /// The folder of the undo file. It is flushed after the file has its name.
    folder: File,
}

impl UndoPlace {
    /// Creates the undo file at `path`, or beside the image. An existing file is never overwritten,
    /// because it may be the only way to undo an earlier repair. Only the owner may read the file,
    /// because it has names, attributes and contents of the volume.
    pub(super) fn open(path: Option<&Path>, image: &Path) -> Result<Self, Failure> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => beside(image)?,
        };
        if path.symlink_metadata().is_ok() {
            return Err(exists(&path));
        }
        let failed = |error| Failure::host(path.as_os_str(), &error);
        let staged = StagedFile::private(&path).map_err(failed)?;
        let staged = staged.ok_or_else(|| {
            let shown = names::in_message(path.as_os_str().as_bytes());
            Failure::new(Exit::Failed, format!("{shown}: an undo file must be a regular file"))
        })?;
        let folder = File::open(output::parent(&path)).map_err(failed)?;
        Ok(Self { path, staged, folder })
    }

    /// Returns the rights on the host that the process needs to give the undo file its name.
    pub(super) fn reach(&self) -> Reach<'_> {
        self.staged.reach()
    }

    /// Returns the folder of the undo file.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.staged.directory()
    }

    /// Returns the undo file, open for reading and writing.
    pub(super) fn file(&self) -> Result<File, Failure> {
        self.staged.file().try_clone().map_err(|error| Failure::host(self.path.as_os_str(), &error))
    }

    /// Gives the undo file its name, and makes the name durable. Returns the path of the undo file.
    /// Fails if the name is no longer free: another repair may have taken the name during the
    /// rehearsal of this one.
    pub(super) fn publish(self) -> Result<PathBuf, Failure> {
        let Self { path, staged, folder } = self;
        let published = staged.publish_new().and_then(|()| folder.sync_all());
        match published {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
            Err(error) => Err(Failure::host(path.as_os_str(), &error)),
        }
    }
}

/// Returns the failure for an undo file whose name is already taken by another file.
fn exists(path: &Path) -> Failure {
    let shown = names::in_message(path.as_os_str().as_bytes());
    Failure::new(Exit::Failed, format!("{shown}: exists already")).hint(
        "finish that repair with --resume or take it back with --undo; remove the file if the \
         repaired volume is good; or name another file with --undo-file",
    )
}

/// Returns the path of the undo file beside an image.
fn beside(image: &Path) -> Result<PathBuf, Failure> {
    let is_device = image.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    if is_device {
        return Err(Failure::usage("repair: a device needs --undo-file FILE")
            .hint("the file must be on another filesystem"));
    }
    let mut path = image.as_os_str().to_owned();
    path.push(SUFFIX);
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::UndoPlace;

    #[test]
    fn undo_file_of_another_repair_made_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("undo");
        let place = UndoPlace::open(Some(&path), &folder.path().join("image")).unwrap();
        place.file().unwrap().write_all(b"this repair").unwrap();
        fs::write(&path, "another repair").unwrap();
        assert!(place.publish().is_err(), "the name of the other undo file was taken");
        assert_eq!(fs::read_to_string(&path).unwrap(), "another repair");
    }
}
