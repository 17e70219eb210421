//! A request of the kernel.
//!
//! Owns: parsing requests. A malformed request is answered with EIO; only a broken kernel sends
//! one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::wire::{InHeader, Opcode, RingHeader};

/// A request of the kernel, in the buffer into which it was read.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    header: InHeader,
    /// The arguments of the request, if they do not lie in `body`. Otherwise empty.
    arguments: &'a [u8],
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a request. Returns `None` if the bytes are not a request.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = InHeader::read_from_prefix(bytes).ok()?;
        // The extensions after the arguments (groups of the caller) were not asked for.
        let end = rest.len().checked_sub(usize::from(header.extensions) * 8)?;
        let body = rest.get(..end)?;
        (header.length as usize == bytes.len()).then_some(Self { header, arguments: &[], body })
    }

    /// Parses a request that has come through a ring. Returns `None` if the bytes are not a
    /// request.
    pub(crate) fn of_ring(message: &'a RingHeader, contents: &'a [u8]) -> Option<Self> {
        let (header, _) = InHeader::read_from_prefix(&message.head).ok()?;
        let length = message.entry.length as usize;
        let end = length.checked_sub(usize::from(header.extensions) * 8)?;
        // The length of the arguments is the rest of the total length.
        let arguments = (header.length as usize).checked_sub(size_of::<InHeader>() + length)?;
        let arguments = message.arguments.get(..arguments)?;
        Some(Self { header, arguments, body: contents.get(..end)? })
    }

    /// Returns the opcode, or `None` if the server does not know the operation.
    #[must_use]
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::of(self.header.opcode)
    }

    pub(crate) fn unique(&self) -> u64 {
        self.header.unique
    }

    /// Returns the node of the request. [`ROOT_NODE`](super::wire::ROOT_NODE) is the root.
    #[must_use]
    pub fn node(&self) -> u64 {
        self.header.node
    }

    /// Returns the user ID of the caller.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// Returns the group ID of the caller.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// Returns the ID of the thread that waits for the answer, in the process namespace of the
    /// program that mounted. It is 0 if the thread has no ID in that namespace.
    pub(crate) fn thread(&self) -> u32 {
        self.header.pid
    }

    /// Returns the arguments of the request, and the bytes after them. EIO if the request is too
    /// short.
    pub(crate) fn argument<T>(&self) -> Result<(T, &'a [u8]), Errno>
    where
        T: FromBytes + KnownLayout + Immutable,
    {
        if self.arguments.is_empty() {
            return split_argument(self.body);
        }
        let (argument, _) = split_argument(self.arguments)?;
        Ok((argument, self.body))
    }

    /// Returns the body of the request, which must be a name.
    ///
    /// # Errors
    ///
    /// EIO if the name does not end with NUL.
    pub fn name(&self) -> Result<&'a OsStr, Errno> {
        split_name(self.body).map(|(name, _)| name)
    }

    /// Returns the arguments of the request and the name after them. EIO if the request is
    /// malformed.
    pub(crate) fn argument_and_name<T>(&self) -> Result<(T, &'a OsStr), Errno>
    where
        T: FromBytes + KnownLayout + Immutable,
    {
        let (argument, rest) = self.argument()?;
        Ok((argument, split_name(rest)?.0))
    }

    /// Returns the arguments of the request and the two names after them. EIO if the request is
    /// malformed.
    pub(crate) fn argument_and_names<T>(&self) -> Result<(T, &'a OsStr, &'a OsStr), Errno>
    where
        T: FromBytes + KnownLayout + Immutable,
    {
        let (argument, rest) = self.argument()?;
        let (first, rest) = split_name(rest)?;
        Ok((argument, first, split_name(rest)?.0))
    }

    /// Returns the body of the request, which must be two names. EIO if the request is malformed.
    pub(crate) fn names(&self) -> Result<(&'a OsStr, &'a OsStr), Errno> {
        let (first, rest) = split_name(self.body)?;
        Ok((first, split_name(rest)?.0))
    }
}

/// Splits off a structure at the start of `bytes`. Returns the structure and the other bytes.
pub(crate) fn split_argument<T>(bytes: &[u8]) -> Result<(T, &[u8]), Errno>
where
    T: FromBytes + KnownLayout + Immutable,
{
    T::read_from_prefix(bytes).map_err(|_| Errno::IO)
}

/// Splits off a name at the start of `bytes`, which ends with NUL. Returns the name and the bytes
/// after it.
pub(crate) fn split_name(bytes: &[u8]) -> Result<(&OsStr, &[u8]), Errno> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::IO)?;
    let (name, rest) = bytes.split_at(end);
    Ok((OsStr::from_bytes(name), rest.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
