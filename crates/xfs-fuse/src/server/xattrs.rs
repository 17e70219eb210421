//! Serves requests about extended attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::SetMode;
use ferroxfs::{Capabilities, SetAttributes};
use rustix::io::Errno;

use super::{Server, errno};
use crate::transport::wire::{ROOT_NODE, SetXattrIn, XATTR_KILL_SET_GROUP_ID, XattrSize};
use crate::transport::{Reply, Request};

/// Name of the attribute with the capabilities that a program gains when it executes the file.
const CAPABILITIES: &str = "security.capability";
/// Prefix of the names of attributes that only root sees.
pub(crate) const HIDDEN_PREFIX: &[u8] = b"trusted.";
/// Prefix of the names of attributes that contain access control lists.
const LIST_PREFIX: &[u8] = b"system.posix_acl_";
/// The most bytes of an attribute's value, or of a list of names.
const MOST_BYTES: usize = 64 << 10;
/// The flag of setxattr that requires a new attribute. The next constant is the flag that requires
/// an existing attribute.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;
const SET_GROUP_ID: u16 = 0o2000;

impl Server {
    pub(super) fn get_xattr(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<XattrSize>()?;
        let told = if request.node() == ROOT_NODE {
            name.to_str().and_then(|name| self.own_attribute(name))
        } else {
            None
        };
        let value = match told {
            Some(value) => value,
            None => self.context(request).node(request.node())?.attribute(name).map_err(errno)?,
        };
        answer_sized(&value, wanted.size, reply)
    }

    pub(super) fn list_xattrs(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<XattrSize>()?;
        let mut names = Vec::new();
        let hides = !self.is_checking() && request.uid() != 0;
        for attribute in self.context(request).node(request.node())?.attributes() {
            let attribute = attribute.map_err(errno)?;
            let name = attribute.name.as_bytes();
            if hides && name.starts_with(HIDDEN_PREFIX) {
                continue;
            }
            names.extend_from_slice(name);
            names.push(0);
            if names.len() > MOST_BYTES {
                return Err(Errno::TOOBIG);
            }
        }
        answer_sized(&names, wanted.size, reply)
    }

    pub(super) fn set_xattr(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, rest) = request.argument::<SetXattrIn>()?;
        let (name, rest) = crate::transport::split_name(rest)?;
        let value = rest.get(..wanted.size as usize).ok_or(Errno::IO)?;
        let mode = match wanted.flags {
            0 => SetMode::Either,
            CREATE => SetMode::Create,
            REPLACE => SetMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        let node = self.context(request).node(request.node())?;
        node.set_attribute(name, value, mode).map_err(errno)?;
        self.note_list(request, name, reply);
        if wanted.more_flags & XATTR_KILL_SET_GROUP_ID != 0 {
            let mode = node.metadata().mode & 0o7777;
            if mode & SET_GROUP_ID != 0 {
                let changes = SetAttributes::new().mode(mode & !SET_GROUP_ID);
                node.set_attributes(&changes).map_err(errno)?;
            }
        }
        self.sync_if_required(&node)
    }

    pub(super) fn remove_xattr(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (context, name) = (self.context(request), request.name()?);
        let node = self.node(request.node())?;
        if name == CAPABILITIES {
            // The kernel also sends this before a write, and does not say which it is. If it does
            // not check permissions, it sends this before a change that may then be refused. A
            // caller that may not remove capabilities by name has not asked to, and loses nothing:
            // the change itself removes them.
            if context.has(Capabilities::SETFCAP) == Some(false) {
                return Ok(());
            }
            if !node.drop_privileges(false).map_err(errno)? {
                return Err(Errno::NODATA);
            }
        } else {
            context.node(request.node())?.remove_attribute(name).map_err(errno)?;
            self.note_list(request, name, reply);
        }
        self.sync_if_required(&node)
    }

    /// Makes the kernel drop the cached attributes of a node after an access control list was set,
    /// because that changes the mode. A kernel that does not check permissions itself does not
    /// expect this change.
    fn note_list(&self, request: &Request<'_>, name: &OsStr, reply: &mut Reply<'_>) {
        if self.is_checking() && name.as_bytes().starts_with(LIST_PREFIX) {
            reply.invalidate_attributes(request.node());
        }
    }
}

/// Answers with a value, or only with its length if `room` is 0. Returns ERANGE if the value is
/// longer than `room` bytes.
pub(crate) fn answer_sized(value: &[u8], room: u32, reply: &mut Reply<'_>) -> Result<(), Errno> {
    if room == 0 {
        reply.add(&XattrSize { size: value.len() as u32, padding: 0 });
        return Ok(());
    }
    if value.len() > room as usize {
        return Err(Errno::RANGE);
    }
    reply.add_bytes(value);
    Ok(())
}
