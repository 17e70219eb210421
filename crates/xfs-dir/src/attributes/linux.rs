//! The names of extended attributes in Linux.
//!
//! In Linux a namespace is a prefix of the name. Two attributes of the trusted namespace hold
//! access control lists. Linux lists each of these two under two names, first the name that ACL
//! programs use.

use xfs_buffer::{PosixError, Result};
use xfs_format::acl::{self, ACCESS_NAME, DEFAULT_NAME};
use xfs_format::attr::Namespace;

use super::Attributes;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Returns the names under which Linux lists an attribute to a privileged caller: none for a parent
/// pointer, two for an access control list, one for any other attribute.
pub fn linux_names(namespace: Namespace, name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let list = match (namespace, name) {
        (Namespace::Trusted, ACCESS_NAME) => Some(ACCESS.to_vec()),
        (Namespace::Trusted, DEFAULT_NAME) => Some(DEFAULT.to_vec()),
        _ => None,
    };
    let plain = prefix(namespace).map(|prefix| [prefix, name].concat());
    list.into_iter().chain(plain)
}

/// Splits a Linux name into its namespace and the name that XFS stores. Returns `None` if XFS
/// stores no attributes with this prefix.
///
/// For a prefix alone, such as `user.`, the returned name is empty. No attribute has an empty name.
/// The value of an access control list has another format under its `system.` name; see
/// [`Attributes::lookup_linux`].
#[must_use]
pub fn split_linux_name(full: &[u8]) -> Option<(Namespace, &[u8])> {
    match full {
        ACCESS => return Some((Namespace::Trusted, ACCESS_NAME)),
        DEFAULT => return Some((Namespace::Trusted, DEFAULT_NAME)),
        _ => {}
    }
    [Namespace::User, Namespace::Trusted, Namespace::Security]
        .into_iter()
        .find_map(|namespace| Some((namespace, full.strip_prefix(prefix(namespace)?)?)))
}

fn prefix(namespace: Namespace) -> Option<&'static [u8]> {
    match namespace {
        Namespace::User => Some(b"user."),
        Namespace::Trusted => Some(b"trusted."),
        Namespace::Security => Some(b"security."),
        Namespace::Parent => None,
    }
}

impl Attributes<'_> {
    /// Returns the value that Linux shows under the name `full`, which includes the prefix.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup), and
    /// [`InvalidArgument`](PosixError::InvalidArgument) for a prefix alone.
    pub fn lookup_linux(&self, full: &[u8]) -> Result<Vec<u8>> {
        let (namespace, name) = split_linux_name(full).ok_or(PosixError::NoAttribute)?;
        if name.is_empty() {
            return Err(PosixError::InvalidArgument.into());
        }
        let value = self.lookup(namespace, name)?;
        match full {
            ACCESS | DEFAULT => {
                Ok(acl::encode_posix_xattr(&acl::decode(&value, self.inode.number())?))
            }
            _ => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests;
