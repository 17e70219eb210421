//! `/dev/fuse`: a connection to the kernel, which may have several descriptors.

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

/// Path of the kernel's FUSE device.
const PATH: &str = "/dev/fuse";
/// The ioctl that connects a descriptor of the device to an existing connection, with a queue of
/// its own.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// A descriptor of `/dev/fuse`.
#[derive(Debug)]
pub(crate) struct Device(File);

impl Device {
    /// Opens `/dev/fuse`. The descriptor does not belong to a connection yet.
    ///
    /// # Errors
    ///
    /// [`MountError::NoDevice`] if the machine has no FUSE device or denies access to it.
    pub(crate) fn open() -> Result<Self, MountError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map(Self)
            .map_err(|source| MountError::NoDevice { source })
    }

    /// Uses a descriptor that the parent process has opened and with which it has mounted.
    ///
    /// # Errors
    ///
    /// EBADF if `number` is not an open descriptor, ENODEV if the descriptor is not of `/dev/fuse`.
    pub(crate) fn inherited(number: RawFd) -> io::Result<Self> {
        let link = format!("/proc/self/fd/{number}");
        if std::fs::read_link(link).map_err(|_| Errno::BADF)? != std::path::Path::new(PATH) {
            return Err(Errno::NODEV.into());
        }
        // SAFETY: the descriptor is open, as /proc has just shown. The user who named it gave it to
        // this process to keep: nothing in this process has opened the device and knows the number.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(File::from(descriptor)))
    }

    /// Wraps the descriptor that fusermount3 sent over a socket.
    pub(crate) fn received(descriptor: OwnedFd) -> Self {
        Self(File::from(descriptor))
    }

    /// Opens one more descriptor of the same connection. A worker answers a request on the
    /// descriptor from which it read the request.
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

    /// Duplicates the descriptor. The caller uses this if `another` fails.
    pub(crate) fn shared(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Waits for a request and reads it into `buffer`. Returns the length of the request in bytes,
    /// or `None` when the connection has ended.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let error = match (&self.0).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) => error,
            };
            match Errno::from_io_error(&error) {
                // ENOENT: the caller was interrupted before we read its request.
                Some(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // ECONNABORTED reaches a worker that is just being given a request (seen now and
                // then with Linux 6.18, as a volume was unmounted). If the connection was cut
                // instead, the volume is still mounted.
                Some(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    /// Sends an answer. If its request does not wait for an answer any more, that is not an error.
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
