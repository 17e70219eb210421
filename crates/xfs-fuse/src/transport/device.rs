//! `/dev/fuse`: one connection to the kernel, and the further descriptors on which it is served.

#![allow(
    unsafe_code,
    reason = "no library wraps FUSE_DEV_IOC_CLONE, nor takes over an open descriptor"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

use crate::MountError;

/// Where the kernel's FUSE is.
const PATH: &str = "/dev/fuse";
/// Asks for one more queue of the connection that is given.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// A descriptor of a connection.
#[derive(Debug)]
pub(crate) struct Device(File);

impl Device {
    /// A new one, which belongs to no connection yet.
    ///
    /// # Errors
    ///
    /// [`MountError::NoDevice`] if the machine has none or does not let us.
    pub(crate) fn open() -> Result<Self, MountError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map(Self)
            .map_err(|source| MountError::NoDevice { source })
    }

    /// The one that whoever started us has opened and mounted.
    ///
    /// # Errors
    ///
    /// EBADF if nothing is open under the number, ENODEV if it is something else.
    pub(crate) fn inherited(number: RawFd) -> io::Result<Self> {
        let link = format!("/proc/self/fd/{number}");
        if std::fs::read_link(link).map_err(|_| Errno::BADF)? != std::path::Path::new(PATH) {
            return Err(Errno::NODEV.into());
        }
        // SAFETY: it is open, as /proc has just shown, and whoever named it gave it to us to keep:
        // nothing in this process has opened the device and knows the number.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(File::from(descriptor)))
    }

    /// The one that was handed over a socket.
    pub(crate) fn received(descriptor: OwnedFd) -> Self {
        Self(File::from(descriptor))
    }

    /// One more descriptor of the same connection, whose answers are matched by themselves.
    pub(crate) fn another(&self) -> Result<Self, MountError> {
        let other = Self::open()?;
        let number = self.0.as_raw_fd() as u32;
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, which is what the setter points to.
        let cloned = unsafe { ioctl(&other.0, Setter::<CLONE, u32>::new(number)) };
        cloned.map_err(|errno| MountError::Failed {
            what: "another queue of the connection".to_owned(),
            source: errno.into(),
        })?;
        Ok(other)
    }

    /// The same descriptor once more, for where another one cannot be opened.
    pub(crate) fn shared(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Waits for a request. `None`: the connection has ended.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let error = match (&self.0).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) => error,
            };
            match Errno::from_io_error(&error) {
                // ENOENT: whoever asked was interrupted before we came to it.
                Some(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // ECONNABORTED to who is just being given a request (seen with Linux 6.18, now and then, as
                // a volume was unmounted). Whether it was cut instead is seen by its being mounted still.
                Some(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    /// Answers. That nobody waits for the answer any more is no error.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match (&self.0).write(bytes) {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NOENT) => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
