//! Volumes of [`ferroxfs`] mounted through FUSE.
//!
//! [`FuseMount::new`] mounts a volume and serves it on threads of its own. [`FuseMount::wait`]
//! returns when the volume has been unmounted. [`FuseMount::finish`] ends the service and returns
//! the handler, so that the caller can close the volume.
//!
//! Owns: the transport (the bytes that `/dev/fuse` carries), mounting as root or through
//! fusermount3, the meaning of each request in terms of the library, mount options. Does **not**
//! own: any decision about files, signals, processes, terminals.
//!
//! # Promises
//!
//! - The server keeps no state for a file or directory that has a name, so its memory does
//!   not grow with the number of nodes that the kernel knows. The exception is `lazytime`, which
//!   keeps up to 64,000 access times.
//! - While a worker answers a request it holds only its own handler lock. If the contents of
//!   a read go through a pipe, it also holds the locks that keep the file unchanged.
//! - After [`FuseMount::finish`] no request is being handled, and none will be.

mod error;
#[cfg(feature = "null")]
mod null;
mod options;
mod permission_checks;
mod server;
mod statistics;
mod transport;
mod tree_server;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

pub use error::MountError;
#[cfg(feature = "null")]
pub use null::Null;
pub use options::{FuseMountOptions, OptionError};
pub use permission_checks::Checks;
pub use server::{
    ACCESS_ATTRIBUTE, AccessTimes, FIGURES_ATTRIBUTE, IMAGE_ATTRIBUTE, NAMESPACE_ATTRIBUTE,
    PROCESS_ATTRIBUTE, Server, Settings, SyncPolicy,
};
pub use transport::wire::{InitFlags, Opcode, ROOT_NODE};
pub use transport::{
    Halter, Handler, Invalidator, MAX_WRITE_BYTES, MountEntry, MountFacts, Reply, Request, Session,
    Unmount, WaitOutcome, is_mount_point, mounts, remount, source_of, sources, unmount,
};

pub use tree_server::{FileTree, TreeAttributes, TreeEntry, TreeServer, TreeSpace, TreeXattr};

use transport::MountPoint;

/// The number of threads that serve a mount, and the kind of channel that they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Number of workers that wait for requests. With io_uring there is at least one worker per
    /// queue of the kernel.
    pub threads: usize,
    /// Number of additional workers. They take requests while other workers wait for the volume's
    /// device.
    pub spare: usize,
    /// The kind of channel that carries the requests and the answers.
    pub channel: ChannelKind,
}

/// The way in which requests arrive and answers are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// Requests are read from `/dev/fuse` by read(2), and answers are written to it by write(2).
    #[default]
    Device,
    /// Requests and answers go through io_uring rings, if the kernel offers them (Linux 6.14).
    IoUring,
}

/// A volume that is mounted and served.
pub struct FuseMount<H: Handler = Server> {
    session: Session<H>,
    point: MountPoint,
}

/// A mount that is no longer in the directory tree but may still be in use. While this value
/// exists, the mount does not end by itself.
#[derive(Debug, Default)]
pub struct Unmounted {
    /// The open root directory of the mount. A system call on this directory makes the kernel write
    /// the pages that it caches for the mount. `None` if the kernel caches no written pages, or if
    /// another program has made the mount.
    root: Option<OwnedFd>,
}

impl<H: Handler> FuseMount<H> {
    /// Mounts a volume on `folder`, and starts to serve it with `handler`. The mount is usable when
    /// this function returns.
    ///
    /// # Errors
    ///
    /// See [`MountError`]. After an error nothing is mounted.
    pub fn new(
        handler: H,
        folder: &Path,
        facts: &MountFacts,
        service: Service,
    ) -> Result<Self, MountError> {
        let rings = match service.channel {
            ChannelKind::Device => Vec::new(),
            ChannelKind::IoUring => transport::rings(service.threads + service.spare)?,
        };
        let (device, point) = MountPoint::mount(folder, facts, handler.checks())?;
        match Session::start(device, handler, service, rings, point.cleaner()) {
            Ok(session) => Ok(Self { session, point }),
            Err(error) => {
                // No worker serves this mount.
                let _ = point.unmount(Unmount::Now);
                Err(error)
            }
        }
    }

    /// Returns the handler that answers requests.
    #[must_use]
    pub fn handler(&self) -> &H {
        self.session.handler()
    }

    /// Returns a handle with which another thread can make [`wait`](Self::wait) return.
    #[must_use]
    pub fn halter(&self) -> Halter {
        self.session.halter()
    }

    /// Waits until the volume is unmounted or the session is halted, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> WaitOutcome {
        self.session.wait(timeout)
    }

    /// Returns the first failure of a worker. A later call returns `None` until another worker
    /// fails.
    pub fn failure(&self) -> Option<io::Error> {
        self.session.failure()
    }

    /// Returns whether the volume is still mounted. If this is true after [`wait`](Self::wait) has
    /// returned [`WaitOutcome::Ended`], the connection was cut and the mount answers no requests.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.point.is_mounted()
    }

    /// Unmounts, after all data that the kernel has acknowledged to programs has been written. A
    /// mount in use leaves the directory tree and serves its users until [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// The error of the system call or of fusermount3.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        if self.session.is_broken() {
            // The unmount might wait for the failed worker. `finish` unmounts instead.
            return Ok(Unmounted::default());
        }
        if self.kernel_holds_writes() {
            self.settle(self.point.open().ok().flatten().as_ref());
        }
        if self.point.unmount(Unmount::Now).is_ok() {
            return Ok(Unmounted { root: None });
        }
        let root = if self.kernel_holds_writes() { self.point.open()? } else { None };
        self.point.unmount(Unmount::WhenUnused)?;
        Ok(Unmounted { root })
    }

    /// Makes the kernel send the server the data that the kernel has acknowledged to programs.
    /// These programs still use the mount, although the mount has left the directory tree.
    pub fn settle_rest(&self, unmounted: &Unmounted) {
        if self.kernel_holds_writes() {
            self.settle(unmounted.root.as_ref());
        }
    }

    /// Returns whether the kernel may hold acknowledged data that it has not sent to the server.
    fn kernel_holds_writes(&self) -> bool {
        !self.session.is_broken() && !self.session.handler().unwritten_nodes().is_empty()
    }

    /// Makes the kernel send all acknowledged data and times to the server, by syncfs(2). syncfs
    /// does not wait until the server has served these requests. Write errors are reported to the
    /// program that wrote the data.
    fn settle(&self, root: Option<&OwnedFd>) {
        let sent = root.map_or(Ok(()), |root| rustix::fs::syncfs(root).map_err(io::Error::from));
        if let Err(error) = sent.and(self.session.settle()) {
            tracing::warn!(%error, "the kernel still holds unwritten data");
        }
    }

    /// Ends the service and returns the handler, or `None` if another reference to the handler
    /// still exists. If the connection was cut and the mount is still in the directory tree,
    /// another process removes the mount, possibly after this process has ended.
    pub fn finish(self) -> Option<H> {
        let Self { session, point } = self;
        let handler = session.finish();
        point.cleaner()();
        handler
    }
}
