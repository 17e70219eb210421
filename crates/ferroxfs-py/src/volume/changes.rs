//! Calls that change names, attributes and inodes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::SetMode;
use ferroxfs::{
    CreateOptions, Error, NewKind, Node, PosixError, RenameMode, SetAttributes, Timestamp,
};
use pyo3::prelude::{PyResult, Python, pymethods};

use super::{Volume, split};
use crate::errors::Failure;

/// The number of times that a file is looked for again, while other callers make and remove it.
const MOST_RACES: u32 = 100;

/// Returns the node of a path. With `create` a missing file is made, with `mode`. With `exclusive`
/// an existing one is an error.
pub(super) fn find_or_create(
    volume: &ferroxfs::Volume,
    path: &[u8],
    create: bool,
    exclusive: bool,
    mode: u16,
) -> Result<Node, Failure> {
    for _ in 0..MOST_RACES {
        if !exclusive {
            match volume.lookup(OsStr::from_bytes(path)) {
                Err(Error::Posix(PosixError::NotFound)) if create => {}
                found => return Ok(found?),
            }
        }
        let options = CreateOptions::new(mode);
        match volume.create_node(OsStr::from_bytes(path), &NewKind::Regular, &options) {
            // Another caller was faster, or the name is a link whose target does not exist.
            Err(Error::Posix(PosixError::Exists)) if !exclusive => {}
            made => return Ok(made?),
        }
    }
    Err(PosixError::Exists.into())
}

fn timestamp(nanoseconds: i64) -> Result<Timestamp, Failure> {
    const SECOND: i64 = 1_000_000_000;
    let rest = u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or_default();
    let time = Timestamp::new(nanoseconds.div_euclid(SECOND), rest);
    time.ok_or_else(|| Failure::Value(format!("{nanoseconds} ns is no time")))
}

#[pymethods]
impl Volume {
    fn mkdir(&self, py: Python<'_>, path: &[u8], mode: u16) -> PyResult<()> {
        self.with(py, Some(path), |volume| {
            let options = CreateOptions::new(mode);
            volume.create_node(OsStr::from_bytes(path), &NewKind::Directory, &options)?;
            Ok(())
        })
    }

    fn symlink(&self, py: Python<'_>, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.with(py, Some(path), |volume| {
            Ok(volume.symlink(OsStr::from_bytes(target), OsStr::from_bytes(path))?)
        })
    }

    fn link(&self, py: Python<'_>, original: &[u8], path: &[u8]) -> PyResult<()> {
        self.with(py, Some(path), |volume| {
            Ok(volume.hard_link(OsStr::from_bytes(original), OsStr::from_bytes(path))?)
        })
    }

    fn unlink(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, Some(path), |volume| Ok(volume.remove_file(OsStr::from_bytes(path))?))
    }

    fn rmdir(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, Some(path), |volume| Ok(volume.remove_dir(OsStr::from_bytes(path))?))
    }

    fn remove_tree(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, Some(path), |volume| Ok(volume.remove_dir_all(OsStr::from_bytes(path))?))
    }

    /// Renames. Without `replace`, an existing target is an error.
    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8], replace: bool) -> PyResult<()> {
        self.with(py, Some(from), |volume| {
            if replace {
                return Ok(volume.rename(OsStr::from_bytes(from), OsStr::from_bytes(to))?);
            }
            let ((from_parent, from_name), (to_parent, to_name)) = (split(from)?, split(to)?);
            let (from, to) = (volume.lookup(from_parent)?, volume.lookup(to_parent)?);
            Ok(from.rename(from_name, &to, to_name, RenameMode::NoReplace)?)
        })
    }

    /// Sets the attributes that are given. Times are nanoseconds since 1970.
    #[pyo3(signature = (path, follow, *, mode, uid, gid, atime, mtime))]
    fn set_attributes(
        &self,
        py: Python<'_>,
        path: &[u8],
        follow: bool,
        mode: Option<u16>,
        uid: Option<u32>,
        gid: Option<u32>,
        atime: Option<i64>,
        mtime: Option<i64>,
    ) -> PyResult<()> {
        self.with_node(py, path, follow, |node| {
            let mut changes = SetAttributes::new();
            if let Some(mode) = mode {
                changes = changes.mode(mode);
            }
            if let Some(uid) = uid {
                changes = changes.uid(uid);
            }
            if let Some(gid) = gid {
                changes = changes.gid(gid);
            }
            if let Some(atime) = atime {
                changes = changes.accessed(timestamp(atime)?);
            }
            if let Some(mtime) = mtime {
                changes = changes.modified(timestamp(mtime)?);
            }
            Ok(node.set_attributes(&changes)?)
        })
    }

    /// Sets an attribute. `flags` are those of os.setxattr: 1 for a new one, 2 for an existing one.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: &[u8],
        follow: bool,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> PyResult<()> {
        self.with_node(py, path, follow, |node| {
            let mode = match flags {
                0 => SetMode::Either,
                1 => SetMode::Create,
                2 => SetMode::Replace,
                _ => return Err(Failure::Value("flags are 0, 1 or 2".to_owned())),
            };
            Ok(node.set_attribute(OsStr::from_bytes(name), value, mode)?)
        })
    }

    fn removexattr(&self, py: Python<'_>, path: &[u8], follow: bool, name: &[u8]) -> PyResult<()> {
        self.with_node(py, path, follow, |node| Ok(node.remove_attribute(OsStr::from_bytes(name))?))
    }
}
