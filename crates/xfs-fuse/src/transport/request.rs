//! A request of the kernel.
//!
//! Owns: taking it apart. What does not fit its form is EIO: only a broken kernel sends that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::wire::{InHeader, Opcode, RingHeader};

/// A request, in the buffer into which it was read.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    header: InHeader,
    /// The arguments, where they do not lie in the body.
    arguments: &'a [u8],
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The request in `bytes`; `None` if they are none.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = InHeader::read_from_prefix(bytes).ok()?;
        // What follows the arguments (groups of the caller) has not been asked for.
        let end = rest.len().checked_sub(usize::from(header.extensions) * 8)?;
        let body = rest.get(..end)?;
        (header.length as usize == bytes.len()).then_some(Self { header, arguments: &[], body })
    }

    /// The request that has come through a ring; `None` if there is none.
    pub(crate) fn of_ring(message: &'a RingHeader, contents: &'a [u8]) -> Option<Self> {
        let (header, _) = InHeader::read_from_prefix(&message.head).ok()?;
        let length = message.entry.length as usize;
        let end = length.checked_sub(usize::from(header.extensions) * 8)?;
        // How many arguments there are is what the other lengths leave.
        let arguments = (header.length as usize).checked_sub(size_of::<InHeader>() + length)?;
        let arguments = message.arguments.get(..arguments)?;
        Some(Self { header, arguments, body: contents.get(..end)? })
    }

    /// What is asked for, if it is served.
    #[must_use]
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::of(self.header.opcode)
    }

    pub(crate) fn unique(&self) -> u64 {
        self.header.unique
    }

    /// The node that it is about; [`ROOT_NODE`](super::wire::ROOT_NODE) is the root.
    #[must_use]
    pub fn node(&self) -> u64 {
        self.header.node
    }

    /// User of the caller.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// Group of the caller.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// The thread that asks and waits for the answer, by its number in the process namespace of who has mounted; 0 if
    /// it has none there.
    pub(crate) fn thread(&self) -> u32 {
        self.header.pid
    }

    /// The arguments, and what follows them.
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

    /// The name that is the whole body.
    ///
    /// # Errors
    ///
    /// EIO if it does not end.
    pub fn name(&self) -> Result<&'a OsStr, Errno> {
        split_name(self.body).map(|(name, _)| name)
    }

    /// The arguments and the name behind them.
    pub(crate) fn argument_and_name<T>(&self) -> Result<(T, &'a OsStr), Errno>
    where
        T: FromBytes + KnownLayout + Immutable,
    {
        let (argument, rest) = self.argument()?;
        Ok((argument, split_name(rest)?.0))
    }

    /// The arguments and two names.
    pub(crate) fn argument_and_names<T>(&self) -> Result<(T, &'a OsStr, &'a OsStr), Errno>
    where
        T: FromBytes + KnownLayout + Immutable,
    {
        let (argument, rest) = self.argument()?;
        let (first, rest) = split_name(rest)?;
        Ok((argument, first, split_name(rest)?.0))
    }

    /// The two names that are the whole body.
    pub(crate) fn names(&self) -> Result<(&'a OsStr, &'a OsStr), Errno> {
        let (first, rest) = split_name(self.body)?;
        Ok((first, split_name(rest)?.0))
    }
}

/// A structure, and what follows.
pub(crate) fn split_argument<T>(bytes: &[u8]) -> Result<(T, &[u8]), Errno>
where
    T: FromBytes + KnownLayout + Immutable,
{
    T::read_from_prefix(bytes).map_err(|_| Errno::IO)
}

/// A name up to its NUL, and what follows.
pub(crate) fn split_name(bytes: &[u8]) -> Result<(&OsStr, &[u8]), Errno> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::IO)?;
    let (name, rest) = bytes.split_at(end);
    Ok((OsStr::from_bytes(name), rest.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests;
