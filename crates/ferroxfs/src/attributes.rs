//! Extended attributes under the names that Linux shows.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use xfs_dir::{AttributeName, Attributes, linux_names};

use crate::Result;
use crate::node::Node;

/// One extended attribute, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The Linux name, with its namespace: `user.`, `trusted.`, `security.` or `system.`.
    pub name: OsString,
    /// Bytes in the value as it is stored. [`Node::attribute`] returns as many, except for an
    /// access control list, whose form for programs has another length.
    pub stored_length_bytes: u32,
}

/// All attributes that Linux shows to root.
pub(crate) fn list(node: &Node) -> Vec<Result<Attribute>> {
    let mut list = Vec::new();
    for attribute in Attributes::new(node.cache(), &node.inode()).names() {
        match attribute {
            Ok(AttributeName { namespace, name, length_bytes }) => {
                let public = |name| Attribute {
                    name: OsString::from_vec(name),
                    stored_length_bytes: length_bytes,
                };
                list.extend(linux_names(namespace, &name).map(public).map(Ok));
            }
            Err(error) => list.push(Err(error)),
        }
    }
    list
}

/// The value of one.
pub(crate) fn value(node: &Node, name: &OsStr) -> Result<Vec<u8>> {
    Attributes::new(node.cache(), &node.inode()).lookup_linux(name.as_bytes())
}
