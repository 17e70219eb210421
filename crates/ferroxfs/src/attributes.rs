//! Reading extended attributes under their Linux names.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use xfs_buffer::PosixError;
use xfs_dir::{AttributeName, Attributes, linux_names, split_linux_name};
use xfs_vfs::{AclKind, Activity, AttributeUse, QualifiedName};

use crate::node::Node;
use crate::{FileType, Result};

/// Prefix of the names of attributes that only administrators can see.
const TRUSTED: &[u8] = b"trusted.";

/// One extended attribute, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attribute {
    /// The Linux name, with its namespace: `user.`, `trusted.`, `security.` or `system.`.
    pub name: OsString,
    /// Length of the stored value in bytes. The value that [`Node::attribute`] returns has the same
    /// length, with one exception: an access control list is returned in the format of Linux, and
    /// its length differs.
    pub stored_length_bytes: u32,
}

impl Node {
    /// Returns the extended attributes, under their Linux names. Attributes that cannot be read are
    /// represented by an error in the result.
    #[must_use]
    pub fn attributes(&self) -> Vec<Result<Attribute>> {
        self.note(Activity::AttributeListing);
        list(self)
    }

    /// Returns the value of one extended attribute, by its Linux name such as `user.mime_type`.
    ///
    /// # Errors
    ///
    /// ENODATA if it does not exist, or the caller may not see it; EACCES; EUCLEAN for a
    /// corrupt volume.
    pub fn attribute(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.note(Activity::AttributeRead);
        value(self, name)
    }
}

/// Returns the extended attributes of an inode, without those that Linux would hide from the
/// caller.
pub(crate) fn list(node: &Node) -> Vec<Result<Attribute>> {
    let sees_trusted = node.caller().sees_trusted();
    let mut list = Vec::new();
    for attribute in Attributes::new(node.cache(), &node.view()).names() {
        match attribute {
            Ok(AttributeName { namespace, name, length_bytes }) => {
                let public = |name| Attribute {
                    name: OsString::from_vec(name),
                    stored_length_bytes: length_bytes,
                };
                let names = linux_names(namespace, &name);
                let shown = names.filter(|name| sees_trusted || !name.starts_with(TRUSTED));
                list.extend(shown.map(public).map(Ok));
            }
            Err(error) => list.push(Err(error)),
        }
    }
    list
}

/// Returns the value of one extended attribute, given by its Linux name.
pub(crate) fn value(node: &Node, name: &OsStr) -> Result<Vec<u8>> {
    let (name, inode) = (name.as_bytes(), node.view());
    if AclKind::of_linux_name(name).is_some() {
        // A caller that may find a file may see its access control lists. A symbolic link cannot
        // have one.
        if inode.file_type() == FileType::Symlink {
            return Err(PosixError::NotSupported.into());
        }
    } else if let Some((namespace, name)) = split_linux_name(name) {
        let attribute = QualifiedName { namespace, name };
        node.caller().check_attribute(node.cache(), &inode, attribute, AttributeUse::Read)?;
    }
    Attributes::new(node.cache(), &inode).lookup_linux(name)
}

#[cfg(test)]
mod tests;
