//! The choice of what is removed from blocks before they go into the image.

use xfs_format::inode::InodeCore;

use crate::names::Obfuscator;

/// The bytes of a block that are replaced.
#[derive(Clone, Copy)]
pub(crate) struct Cleaning<'a> {
    /// Replaces names; `None` if names stay as they are.
    pub(crate) names: Option<&'a Obfuscator>,
    /// Whether bytes that no structure uses become zeros.
    pub(crate) zeroes_stale: bool,
    /// Whether the volume has a metadata directory, whose names stay as they are.
    pub(crate) has_metadata_directory: bool,
}

/// The result of cleaning a block or a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleaned {
    /// All of it was understood.
    Whole,
    /// A part could not be understood. With obfuscation that part is now zeros.
    Partly,
}

impl Cleaned {
    /// Returns [`Whole`](Self::Whole) if this is `true`.
    pub(crate) const fn whole_if(is_whole: bool) -> Self {
        if is_whole { Self::Whole } else { Self::Partly }
    }
}

impl Cleaning<'_> {
    /// Returns whether names and values are obfuscated.
    pub(crate) const fn obfuscates(self) -> bool {
        self.names.is_some()
    }

    /// Returns the choice for the names of a directory. The names of the metadata directory are not
    /// the user's.
    pub(crate) fn of_directory(self, core: &InodeCore) -> Self {
        let is_metadata = self.has_metadata_directory && core.metafile_type != 0;
        Self { names: self.names.filter(|_| !is_metadata), ..self }
    }

    /// Replaces a name, if names are obfuscated.
    pub(crate) fn name(self, name: &mut [u8]) {
        if let Some(names) = self.names {
            names.replace(name);
        }
    }

    /// Replaces the target of a link, if names are obfuscated.
    pub(crate) fn target(self, target: &mut [u8]) {
        if let Some(names) = self.names {
            names.replace_target(target);
        }
    }

    /// Replaces bytes that could not be understood, if names are obfuscated (M3).
    pub(crate) fn unknown(self, bytes: &mut [u8]) -> Cleaned {
        if self.obfuscates() {
            bytes.fill(0);
        }
        Cleaned::Partly
    }
}
