//! Regular files below a directory of the host, by paths from untrusted documents: of a container
//! image, or a dump of composefs.
//!
//! # Invariants
//!
//! - **I1** No path leads out of the directory, neither by `..` nor by a symbolic link.

use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The number of attempts to open a path. The kernel gives up (EAGAIN) if it meets `..` while
/// another process renames a file.
const MOST_TRIES: usize = 1000;

/// Opens the regular file at `path` below a directory. The kernel refuses a path that leads out
/// (I1).
pub(super) fn open_beneath(directory: &File, path: &str) -> io::Result<File> {
    // Opening a FIFO must not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = || rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve);
    // At `..` the kernel gives up if another process renames any file meanwhile.
    let mut tries = std::iter::repeat_with(open).take(MOST_TRIES);
    let opened = tries.find(|opened| !matches!(opened, Err(Errno::AGAIN)));
    let file = File::from(opened.unwrap_or(Err(Errno::AGAIN))?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::open_beneath;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_that_lead_out_of_the_directory_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::write(place.path().join("outside"), "").unwrap();
        fs::write(top.join("inside"), "").unwrap();
        symlink("../outside", top.join("out")).unwrap();
        symlink(place.path(), top.join("up")).unwrap();
        symlink("../inside", top.join("sub/in")).unwrap();
        let directory = File::open(&top).unwrap();
        for path in ["inside", "sub/in", "sub/../inside"] {
            assert!(open_beneath(&directory, path).is_ok(), "{path}");
        }
        let absolute = place.path().join("outside").display().to_string();
        for path in ["../outside", "sub/../../outside", "out", "up/outside", &absolute] {
            assert!(open_beneath(&directory, path).is_err(), "I1: {path} leads out");
        }
        assert!(open_beneath(&directory, "sub").is_err());
    }
}
