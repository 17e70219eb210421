//! Layers: several sources that are written into one tree, in order.
//!
//! Owns: which names the current layer has written, and hiding what lower layers have left under a
//! name. Does **not** own: the meaning of whiteouts in an archive
//! ([`Unpacker`](crate::import::unpack::Unpacker)).
//!
//! # Invariants
//!
//! - **I1** Hiding removes names of lower layers only, whatever the order of the members in a
//!   layer. A directory of a lower layer stays if the current layer has put something below it.
//! - **I2** Nothing is recursive: the depth of a tree comes from the sources.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Error, FileType, Node, PosixError};

use super::{ImageWriter, OpenDirectory, WriteFailure};
use crate::failure::Failure;
use crate::file::source::is_carried_over;
use crate::interrupt;

/// The names that the current layer has written: the inode number of the directory, and the name.
/// Inode numbers are used in place of paths, because a path may lead through symbolic links.
#[derive(Debug, Default)]
pub(super) struct LayerNames(HashSet<(u64, Box<[u8]>)>);

impl LayerNames {
    fn contains(&self, directory: &Node, name: &OsStr) -> bool {
        self.0.contains(&(directory.number().0, name.as_bytes().into()))
    }
}

/// A directory whose lower entries are being hidden.
struct HiddenLevel {
    directory: Node,
    /// The names that are still to be visited.
    names: Vec<OsString>,
    /// The name of the directory in the level above; `None` for the first level, which stays.
    name: Option<OsString>,
}

impl HiddenLevel {
    fn enter(directory: Node, name: Option<OsString>) -> Result<Self, WriteFailure> {
        let names = directory.entries()?.map(|entry| entry.map(|entry| entry.name().to_owned()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { directory, names, name })
    }
}

impl ImageWriter<'_> {
    /// Begins a layer. From here on, a file of this layer replaces a directory of lower layers with
    /// everything in it, and the attributes of a directory replace those of lower layers.
    ///
    /// # Errors
    ///
    /// The failure of the function that [watches](Self::watched_by) the layers.
    pub(crate) fn begin_layer(&mut self) -> Result<(), Failure> {
        self.cross_kinds();
        self.layer = Some(LayerNames::default());
        self.at_layer.as_mut().map_or(Ok(()), |at_layer| at_layer())
    }

    /// Returns whether the sources are layers.
    pub(crate) fn is_layered(&self) -> bool {
        self.layer.is_some()
    }

    /// Records that the current layer has written `name` into `directory`.
    pub(super) fn note_name(&mut self, directory: &Node, name: &[u8]) {
        if let Some(layer) = &mut self.layer {
            layer.0.insert((directory.number().0, name.into()));
        }
    }

    /// Hides what lower layers have left under `name` in `directory`. A name that does not exist is
    /// no error.
    pub(crate) fn hide(&self, directory: &Node, name: &OsStr) -> Result<(), WriteFailure> {
        let node = match directory.lookup(name) {
            Err(Error::Posix(PosixError::NotFound)) => return Ok(()),
            found => found?,
        };
        let is_directory = node.file_type() == FileType::Directory;
        if is_directory {
            self.hide_entries(&node)?;
        }
        self.remove_lower(directory, name, is_directory)
    }

    /// Hides everything that lower layers have left in `directory`.
    pub(crate) fn hide_entries(&self, directory: &Node) -> Result<(), WriteFailure> {
        let mut levels = vec![HiddenLevel::enter(directory.clone(), None)?];
        // I2: the levels are in a list, so the depth of the tree costs no stack.
        while let Some(level) = levels.last_mut() {
            interrupt::check().map_err(WriteFailure::All)?;
            let Some(name) = level.names.pop() else {
                let left = levels.pop().and_then(|level| level.name);
                if let (Some(name), Some(above)) = (left, levels.last()) {
                    self.remove_lower(&above.directory, &name, true)?;
                }
                continue;
            };
            let node = level.directory.lookup(&name)?;
            if node.file_type() == FileType::Directory {
                levels.push(HiddenLevel::enter(node, Some(name))?);
            } else {
                self.remove_lower(&level.directory, &name, false)?;
            }
        }
        Ok(())
    }

    /// Removes a name, unless the current layer has written it, or something below it (I1).
    fn remove_lower(
        &self,
        directory: &Node,
        name: &OsStr,
        is_directory: bool,
    ) -> Result<(), WriteFailure> {
        // I1: names of the current layer stay.
        if self.layer.as_ref().is_some_and(|layer| layer.contains(directory, name)) {
            return Ok(());
        }
        if !is_directory {
            return Ok(directory.remove_file(name)?);
        }
        match directory.remove_dir(name) {
            // I1: something of the current layer is below it.
            Err(Error::Posix(PosixError::NotEmpty)) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Hides the entries of a directory of lower layers that another file is about to replace.
    pub(super) fn clear_replaced(&self, present: Option<&Node>) -> Result<(), WriteFailure> {
        match present {
            Some(node) if self.is_layered() && node.file_type() == FileType::Directory => {
                self.hide_entries(node)
            }
            _ => Ok(()),
        }
    }

    /// Removes the attributes that a lower layer has given a directory and the current layer does
    /// not give.
    pub(super) fn drop_lower_attributes(
        &self,
        entered: &OpenDirectory,
    ) -> Result<(), WriteFailure> {
        if !self.is_layered() {
            return Ok(());
        }
        for attribute in entered.directory.attributes() {
            let name = attribute?.name;
            let given = entered.attributes.iter().flatten();
            let is_given = given.into_iter().any(|value| value.name == name.as_bytes());
            if !is_given && is_carried_over(name.as_bytes()) {
                entered.directory.remove_attribute(&name)?;
            }
        }
        Ok(())
    }
}
