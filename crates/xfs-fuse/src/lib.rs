//! Volumes of [`ferroxfs`] behind FUSE.
//!
//! [`Mount::new`] mounts a volume and serves it on threads of its own; [`Mount::wait`] returns when it
//! has been unmounted, and [`Mount::finish`] closes the volume.
//!
//! Owns: the transport (the bytes that `/dev/fuse` carries), mounting as root or through fusermount3,
//! what each request means in terms of the library, mount options. Does **not** own: any decision
//! about files, signals, processes, terminals.
//!
//! # Promises
//!
//! - **I1** Nothing is kept for a node that has a name, so memory does not grow with what the kernel knows;
//!   but with `lazytime` up to 64,000 times of access.
//! - **I2** No lock is held while a request is answered but that of its own worker; and where what is read goes
//!   through a pipe, those that keep the file as it is.
//! - **I3** After [`Mount::finish`] no request is being handled, and none will be.

mod error;
#[cfg(feature = "null")]
mod null;
mod options;
mod server;
mod statistics;
mod transport;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

pub use error::MountError;
#[cfg(feature = "null")]
pub use null::Null;
pub use options::{MountOptions, OptionError};
pub use server::{
    ACCESS_ATTRIBUTE, AccessTimes, Checks, Durability, FIGURES_ATTRIBUTE, IMAGE_ATTRIBUTE,
    NAMESPACE_ATTRIBUTE, PROCESS_ATTRIBUTE, Server, Settings,
};
pub use transport::wire::{InitFlags, Opcode, ROOT_NODE};
pub use transport::{
    Halter, Handler, Invalidator, MAX_WRITE_BYTES, MountFacts, MountedVolume, Reply, Request,
    Session, Unmount, WaitOutcome, is_mount_point, mounts, remount, source_of, sources, unmount,
};

use transport::MountPoint;

/// How something is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// How many wait for requests; through rings one for each processor at the least.
    pub threads: usize,
    /// How many more take the places of those who wait for the volume's device.
    pub spare: usize,
    /// Where they come from.
    pub channel: ChannelKind,
}

/// How requests come and answers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// By read and write.
    #[default]
    Device,
    /// Through rings of io_uring, where the kernel offers that (Linux 6.14).
    IoUring,
}

/// Something that is mounted and served.
pub struct Mount<H: Handler = Server> {
    session: Session<H>,
    point: MountPoint,
}

/// A mount that has left the tree. While this is held, one that was in use does not end by itself.
#[derive(Debug, Default)]
pub struct Unmounted {
    /// Where the kernel can be asked to write what it holds.
    root: Option<OwnedFd>,
}

impl<H: Handler> Mount<H> {
    /// Mounts and begins to serve. When it returns the mount can be used.
    ///
    /// # Errors
    ///
    /// See [`MountError`]; nothing is mounted then.
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
                // Nobody answers there.
                let _ = point.unmount(Unmount::Now);
                Err(error)
            }
        }
    }

    /// Who answers.
    #[must_use]
    pub fn handler(&self) -> &H {
        self.session.handler()
    }

    /// What has [`wait`](Self::wait) return from elsewhere.
    #[must_use]
    pub fn halter(&self) -> Halter {
        self.session.halter()
    }

    /// Waits until it is unmounted or halted, at most this long.
    pub fn wait(&self, timeout: Duration) -> WaitOutcome {
        self.session.wait(timeout)
    }

    /// How a worker has failed, if one has. It is told once.
    pub fn failure(&self) -> Option<io::Error> {
        self.session.failure()
    }

    /// Whether it is mounted still. When [`wait`](Self::wait) has said that it has ended the connection was
    /// cut, and the mount answers to nobody.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.point.is_there()
    }

    /// Unmounts, when what the kernel has acknowledged has been written. What is in use leaves the tree and
    /// stays for those who use it, until [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// What the system gives.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        if self.session.is_broken() {
            // It might wait for whoever has failed: `finish` does it.
            return Ok(Unmounted::default());
        }
        if self.holds_back() {
            self.settle(self.point.open().ok().flatten().as_ref());
        }
        if self.point.unmount(Unmount::Now).is_ok() {
            return Ok(Unmounted { root: None });
        }
        let root = if self.holds_back() { self.point.open()? } else { None };
        self.point.unmount(Unmount::WhenUnused)?;
        Ok(Unmounted { root })
    }

    /// Has the kernel write what it has acknowledged to those who go on using what is unmounted.
    pub fn settle_rest(&self, unmounted: &Unmounted) {
        if self.holds_back() {
            self.settle(unmounted.root.as_ref());
        }
    }

    /// Whether the kernel may hold what it has acknowledged.
    fn holds_back(&self) -> bool {
        !self.session.is_broken() && !self.session.handler().unwritten_nodes().is_empty()
    }

    /// syncfs has the kernel send everything, times too, but does not wait for what it has sent. What
    /// cannot be written is told to who wrote it.
    fn settle(&self, root: Option<&OwnedFd>) {
        let sent = root.map_or(Ok(()), |root| rustix::fs::syncfs(root).map_err(io::Error::from));
        if let Err(error) = sent.and(self.session.settle()) {
            tracing::warn!(%error, "the kernel holds what it has not written");
        }
    }

    /// Ends it, and returns the handler. What is still mounted because the connection was cut is cleared away; it
    /// may take the end of this process.
    pub fn finish(self) -> Option<H> {
        let Self { session, point } = self;
        let handler = session.finish();
        point.cleaner()();
        handler
    }
}
