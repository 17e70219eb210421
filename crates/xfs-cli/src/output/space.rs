//! The disk space of the host for the files that a command writes there: the number of free bytes,
//! and extending files.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns the number of bytes that this user can still write on the filesystem of the file at
/// `path`, which need not exist yet. `None` if the number is unknown.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = rustix::fs::statvfs(path)
        .or_else(|_| rustix::fs::statvfs(folder.unwrap_or(Path::new("."))));
    found.ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Extends a file to a length of `bytes`, with a hole at its end.
pub(crate) fn lengthen(file: &File, bytes: u64) -> io::Result<()> {
    if i64::try_from(bytes).is_err() {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{bytes} bytes are more than a file can have"),
        ));
    }
    file.set_len(bytes)
}
