//! The options that determine which bytes of a block are replaced or zeroed before the block goes
//! into the image.

use xfs_format::inode::InodeCore;

use crate::names::Obfuscator;

/// The choice of the bytes in a block that are replaced or zeroed.
#[derive(Clone, Copy)]
pub(crate) struct Cleaning<'a> {
    /// The obfuscator that replaces names. `None` if names stay as they are.
    pub(crate) names: Option<&'a Obfuscator>,
    /// Whether bytes that no structure uses become zeros.
    pub(crate) zeroes_stale: bool,
    /// Whether the volume has a metadata directory, whose names stay as they are.
    pub(crate) has_metadata_directory: bool,
}

/// The result of cleaning a block or a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleaned {
    /// The whole block or fork was understood.
    Whole,
    /// A part of the block or fork could not be understood. If names are obfuscated, that part is
    /// now zeros.
    Partly,
}

impl Cleaned {
    /// Returns [`Whole`](Self::Whole) if `is_whole` is `true`, and `Partly` otherwise.
    pub(crate) const fn whole_if(is_whole: bool) -> Self {
        if is_whole { Self::Whole } else { Self::Partly }
    }
}

impl Cleaning<'_> {
    /// Returns whether names and values are obfuscated.
    pub(crate) const fn obfuscates(self) -> bool {
        self.names.is_some()
    }

    /// Returns the options for the entries of a directory. If the directory belongs to the metadata
    /// directory, the names in it are not replaced, because they are not the user's.
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

    /// Zeros bytes that could not be understood, if names are obfuscated, because they may hold
    /// names (M3 of the crate).
    pub(crate) fn unknown(self, bytes: &mut [u8]) -> Cleaned {
        // M3: unknown bytes may hold names.
        if self.obfuscates() {
            bytes.fill(0);
        }
        Cleaned::Partly
    }
}
