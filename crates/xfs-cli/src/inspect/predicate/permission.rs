//! The argument of `-perm`: octal or symbolic, exact, all of (`-`) or any of (`/`).

use std::ffi::OsStr;

use crate::text::mode::{Circumstances, ModeChange};

/// A test of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    how: PermissionMatch,
    /// The bits for a file.
    bits: u32,
    /// The bits for a directory, for which `X` means `x`.
    bits_of_directory: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermissionMatch {
    /// Exactly these bits.
    Exactly,
    /// All of these bits.
    AllOf,
    /// Any of these bits; true if there are none.
    AnyOf,
}

impl Permission {
    /// Parses the argument.
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

    /// Applies the mode to no permissions, whatever the umask.
    fn of(how: PermissionMatch, mode: &str) -> Option<Self> {
        let change = ModeChange::parse(mode)?;
        let bits = |is_directory| change.of(0, Circumstances { is_directory, umask: 0 });
        Some(Self { how, bits: bits(false), bits_of_directory: bits(true) })
    }

    /// Returns whether `mode`, with its type bits, satisfies the test.
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
