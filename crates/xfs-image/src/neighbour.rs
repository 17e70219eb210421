//! Other files that an image names: backing files and extent files.
//!
//! Owns: which names are followed. Does **not** own the meaning of the files.
//!
//! The author of an image chooses the names in it. Without a limit, an image could make ferroxfs
//! read any file of the host and show it as the contents of a disk. So a name is followed only if
//! it stays in the directory of the image, and a chain of images is bounded (I1, I2).
//!
//! # Invariants
//!
//! - **I1** A name is relative and has no `..`. A symbolic link in the directory is followed: the
//!   owner of the directory made it, not the author of the image.
//! - **I2** A chain has at most [`MAX_CHAIN`] images, and no file twice.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use xfs_device::{DeviceError, DeviceFailure, FileDevice, FileOptions, printable};

use crate::error::{FileRole, ImageError, NeighbourRefusal};

/// The most images in a chain of backing files.
pub(crate) const MAX_CHAIN: usize = 32;

/// The device and inode number of a file of the host.
type FileIdentity = (u64, u64);

/// The directory of an image, and the chain of images that leads to it. They decide which file
/// names in the image are followed.
pub struct Surroundings {
    directory: PathBuf,
    options: FileOptions,
    chain: Vec<FileIdentity>,
}

/// A file that an image names, open and locked.
pub(crate) struct Neighbour {
    pub(crate) file: FileDevice,
    /// The directory of this file, and the chain of images that ends with it. They decide which
    /// names in the file are followed.
    pub(crate) surroundings: Surroundings,
}

impl Surroundings {
    /// Returns the directory of the image at `path`, with a chain that begins with this image.
    ///
    /// # Errors
    ///
    /// The error of the host.
    pub fn of(path: &Path, options: FileOptions) -> Result<Self, ImageError> {
        let identity = identity_of(path)?;
        Ok(Self { directory: directory_of(path), options, chain: vec![identity] })
    }

    /// Opens the file that the image calls `name`. `options` decides whether the file can be
    /// written to.
    ///
    /// # Errors
    ///
    /// [`ImageError::Neighbour`] if the name is not followed (I1, I2) or the file is not opened.
    pub(crate) fn open(
        &self,
        name: &str,
        role: FileRole,
        options: FileOptions,
    ) -> Result<Neighbour, ImageError> {
        let refused = |refusal| {
            let name = printable(name);
            Err(ImageError::Neighbour { role, name, refusal })
        };
        // I1
        if !stays_inside(name) {
            return refused(NeighbourRefusal::OutsideDirectory);
        }
        // I2
        if self.chain.len() >= MAX_CHAIN {
            return refused(NeighbourRefusal::TooDeep);
        }
        let path = self.directory.join(name);
        let identity = match identity_of(&path) {
            Ok(identity) => identity,
            Err(error) => {
                let error = DeviceError::new(&path, DeviceFailure::Open(error));
                return refused(NeighbourRefusal::Device(Box::new(error)));
            }
        };
        if self.chain.contains(&identity) {
            return refused(NeighbourRefusal::Loop);
        }
        let file = match FileDevice::open(&path, options) {
            Ok(file) => file,
            Err(error) => return refused(NeighbourRefusal::Device(Box::new(error))),
        };
        let mut chain = self.chain.clone();
        chain.push(identity);
        let surroundings = Self { directory: directory_of(&path), options: self.options, chain };
        Ok(Neighbour { file, surroundings })
    }

    /// Returns the options with which the first image of the chain is opened.
    pub(crate) const fn options(&self) -> FileOptions {
        self.options
    }

    /// Returns the options for opening a file that is only read.
    pub(crate) const fn reading(&self) -> FileOptions {
        let options = FileOptions::read_only();
        if self.options.is_live() { options.live() } else { options }
    }
}

/// Returns whether the name is that of a file in the directory of the image or beneath it (I1). A
/// name with a colon before the first slash is refused, because qemu takes it for a protocol.
fn stays_inside(name: &str) -> bool {
    let path = Path::new(name);
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let first = name.split('/').next().unwrap_or(name);
    path.file_name().is_some() && path.components().all(is_plain) && !first.contains([':', '\0'])
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().map_or_else(PathBuf::new, Path::to_owned)
}

fn identity_of(path: &Path) -> std::io::Result<FileIdentity> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::stays_inside;

    #[test]
    fn names_outside_of_the_directory_are_recognised() {
        for inside in ["base.qcow2", "./base", "older/base.img", "a/b/c"] {
            assert!(stays_inside(inside), "{inside}");
        }
        for outside in ["", ".", "/etc/shadow", "../base", "a/../../b", "nbd:host", "json:{}"] {
            assert!(!stays_inside(outside), "{outside}");
        }
    }
}
