//! The argument of `-perm`: an octal or symbolic mode. Without a prefix, the mode of the file must
//! be equal; with `-`, all of the given bits must be set; with `/`, any of them.

use std::ffi::OsStr;

use crate::text::mode::{Circumstances, ModeChange};

/// A test of the permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    how: PermissionMatch,
    /// The wanted bits of a file that is not a directory.
    bits: u32,
    /// The wanted bits of a directory, for which `X` means `x`.
    bits_of_directory: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermissionMatch {
    /// The file has exactly these bits.
    Exactly,
    /// The file has all of these bits.
    AllOf,
    /// The file has any of these bits. This is true if no bits are wanted.
    AnyOf,
}

impl Permission {
    /// Parses the argument of `-perm`; `None` if it is invalid.
    pub(crate) fn parse(argument: &OsStr) -> Option<Self> {
        let text = argument.to_str()?;
        if let Some(mode) = text.strip_prefix('/') {
            return Self::of(PermissionMatch::AnyOf, mode);
        }
        // A minus before an operand of a symbolic mode means the same here, because no permissions
        // can be removed from none.
        if let Some(mode) = text.strip_prefix('-') {
            return Self::of(PermissionMatch::AllOf, mode);
        }
        // The old form of `/`, which find(1) has removed.
        let is_old = text.strip_prefix('+').is_some_and(|rest| rest.starts_with(is_digit));
        if is_old { None } else { Self::of(PermissionMatch::Exactly, text) }
    }

    /// Creates a test for the bits that `mode` sets on a file without permissions. The umask has no
    /// effect.
    fn of(how: PermissionMatch, mode: &str) -> Option<Self> {
        let change = ModeChange::parse(mode)?;
        let bits = |is_directory| change.of(0, Circumstances { is_directory, umask: 0 });
        Some(Self { how, bits: bits(false), bits_of_directory: bits(true) })
    }

    /// Returns whether `mode`, which includes the type bits, satisfies the test.
    pub(crate) fn holds(self, mode: u32) -> bool {
        let is_directory = mode & TYPE_BITS == DIRECTORY;
        let bits = if is_directory { self.bits_of_directory } else { self.bits };
        let mode = mode & 0o7777;
        match self.how {
            PermissionMatch::Exactly => mode == bits,
            PermissionMatch::AllOf => mode & bits == bits,
            PermissionMatch::AnyOf => bits == 0 || mode & bits != 0,
        }
    }
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

const TYPE_BITS: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
