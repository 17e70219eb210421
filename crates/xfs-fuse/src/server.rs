//! The server of a mounted volume: answers the requests that the kernel sends through FUSE.
//!
//! Owns: the meaning of each request in terms of [`ferroxfs`]. Does **not** own: permissions and
//! file locks. The kernel checks permissions by the owners, modes and access control lists that the
//! server reports. Alternatively ([`Checks`]) the library checks permissions for the caller of each
//! request. The kernel keeps file locks by itself, since no other program writes to the volume.
//!
//! A node is an inode number, except for the root, which is node 1. The server has no table of the
//! nodes that the kernel knows. It finds an inode that has a name by its inode number. An inode
//! that has lost its last name is kept in [`UnlinkedNodes`] until the kernel forgets it, and in
//! [`Handles`] while it is open. So the server keeps nothing for nodes with a name. No inode number
//! is reused while the kernel still refers to the old file by that number.

mod access;
mod attributes;
mod caller;
mod checks;
mod contents;
mod directories;
mod handles;
pub(crate) mod identity;
mod ioctl;
mod names;
mod shards;
mod unlinked;
mod writeback;
pub(crate) mod xattrs;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferroxfs::{Error, InodeNumber, Node, Timestamp, Volume};
use rustix::io::Errno;
use xfs_sync::{SetOnce, Volume as VolumeScope};

use crate::MountError;
use crate::permission_checks::Checks;
use crate::statistics::Statistics;
use crate::transport::wire::{BatchForgetIn, ForgetOne, InitFlags, Opcode, ROOT_NODE, StatFsOut};
use crate::transport::{Handler, Invalidator, ReadOnlyProbe, Reply, Request};
use access::LazyTimes;
use caller::ProcAccess;
use checks::Checker;
use handles::Handles;
use identity::ShownOwner;
pub use identity::{
    ACCESS_ATTRIBUTE, FIGURES_ATTRIBUTE, IMAGE_ATTRIBUTE, NAMESPACE_ATTRIBUTE, PROCESS_ATTRIBUTE,
};
use unlinked::UnlinkedNodes;

/// How long the kernel may cache names and attributes. They stay true until the kernel itself
/// requests a change, because only this server changes the volume.
const VALID: Duration = Duration::from_secs(365 * 24 * 3600);
/// Length of the longest file name in bytes.
const NAME_BYTES: u32 = 255;
/// The most files that a worker frees during one FORGET request. A request may forget tens of
/// thousands of files, and the worker serves no other request meanwhile.
const FREED_AT_ONCE: usize = 32;

/// How a mount shows its volume, and when changes become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether the volume is never written to.
    pub read_only: bool,
    /// The user ID of the owner that all files appear to have. A new file then belongs to the owner
    /// of its directory. `None` shows the owners on the volume.
    pub uid: Option<u32>,
    /// The group ID that all files appear to have. `None` shows the groups on the volume.
    pub gid: Option<u32>,
    /// Which changes are durable before the server answers their requests.
    pub durability: SyncPolicy,
    /// When access times are updated.
    pub access_times: AccessTimes,
    /// Whether access times wait in memory and are written later.
    #[doc(alias = "lazytime")]
    pub lazy_times: bool,
    /// Whether written data waits in the kernel's page cache. The kernel then acknowledges a write
    /// before space is reserved for its data.
    pub writeback: bool,
    /// Whether the kernel or the server checks permissions.
    pub checks: Checks,
}

/// Which changes are durable before the server answers their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncPolicy {
    /// Only the changes that a program syncs itself, by fsync, O_SYNC or similar, are durable
    /// before the server answers. Other changes become durable within seconds.
    #[default]
    Asked,
    /// Changes of names and inodes are durable before the server answers, and so are other changes
    /// that a program syncs itself, by fsync, O_SYNC or similar.
    #[doc(alias = "wsync")]
    Names,
    /// All changes are durable before the server answers their requests.
    #[doc(alias = "sync")]
    All,
}

/// When access times are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// An access time is updated if it is older than the last change of the file, or older than a
    /// day.
    #[default]
    Relative,
    /// Access times of files are updated as with `Relative`. Those of directories are never
    /// updated.
    #[doc(alias = "nodiratime")]
    Files,
    /// No access time is updated.
    Never,
}

/// A volume and its settings, as the handler of a mount's requests.
pub struct Server {
    volume: Volume,
    settings: Settings,
    /// Reports whether the mount has been made read-only. `None` if the path of the mount point is
    /// unknown.
    read_only_probe: Option<ReadOnlyProbe>,
    identity: ShownOwner,
    /// Set when a program has shut the volume down with an ioctl. The shutdown first writes all
    /// changes to the log.
    shut_down: SetOnce<(), VolumeScope>,
    unlinked: UnlinkedNodes,
    handles: Handles,
    /// Access times that wait to be written. `None` without `lazytime`.
    lazy_times: Option<LazyTimes>,
    /// Checks permissions. `None` unless the option `nodefault_permissions` is set.
    checker: Option<Checker>,
    statistics: Statistics,
}

impl Server {
    /// Creates a server for a volume, which must be open for writing unless the settings are
    /// read-only. If permissions are checked on a read-only volume, starts a helper thread that
    /// looks up callers in /proc. The helper stays outside the sandbox that the workers enter
    /// later.
    ///
    /// # Errors
    ///
    /// [`MountError::Callers`] if permissions must be checked and /proc is not usable.
    pub fn new(volume: Volume, settings: Settings) -> Result<Self, MountError> {
        let by = if settings.read_only { ProcAccess::Helper } else { ProcAccess::Worker };
        let checker = match settings.checks {
            Checks::Kernel => None,
            Checks::Server => {
                Some(Checker::new(by).map_err(|source| MountError::Callers { source })?)
            }
        };
        let (unlinked, handles) = (UnlinkedNodes::default(), Handles::default());
        let waits = settings.lazy_times && !settings.read_only;
        let (lazy_times, statistics) = (waits.then(LazyTimes::default), Statistics::new());
        let (read_only_probe, identity) = (None, ShownOwner::of_this_process());
        let shut_down = SetOnce::new();
        Ok(Self {
            volume,
            settings,
            read_only_probe,
            identity,
            shut_down,
            unlinked,
            handles,
            lazy_times,
            checker,
            statistics,
        })
    }

    /// Sets the path of the file that contains the volume, for programs that query the mount.
    #[must_use]
    pub fn in_image(self, image: &Path) -> Self {
        Self { identity: self.identity.with_image(image), ..self }
    }

    /// Sets the absolute path of the mount point. The server uses the path to see whether the mount
    /// has been made read-only. If so, it refuses to set a label and writes no access time.
    #[must_use]
    pub fn mounted_at(self, folder: Option<PathBuf>) -> Self {
        Self { read_only_probe: folder.map(ReadOnlyProbe::of), ..self }
    }

    /// Returns whether the mount has been made read-only. The kernel then refuses writes of
    /// programs. This check is for writes by the server itself.
    fn is_mounted_read_only(&self) -> bool {
        self.read_only_probe.as_ref().is_some_and(ReadOnlyProbe::is_read_only)
    }

    /// Closes all files and the volume.
    ///
    /// # Errors
    ///
    /// The errors of [`Volume::close`]. If a program has shut the volume down, there is no error,
    /// because everything that had to be kept is in the log.
    pub fn close(self) -> Result<(), Error> {
        self.write_waiting_times();
        let Self { volume, unlinked, handles, checker, shut_down, .. } = self;
        drop((unlinked, handles, checker));
        let closed = volume.close();
        if shut_down.value().is_some() { Ok(()) } else { closed }
    }

    /// Returns the statistics of the mount, in the text format of Prometheus.
    #[must_use]
    pub fn figures(&self) -> String {
        let mut text = self.statistics.to_prometheus();
        // A read-only volume has no statistics.
        if let Ok(volume) = self.volume.statistics() {
            crate::statistics::add_volume(&mut text, &volume);
        }
        text
    }

    /// Returns the inode of the node that the kernel calls `node`.
    fn node(&self, node: u64) -> Result<Node, Errno> {
        self.volume.node_trusted(self.number(node)).map_err(errno)
    }

    /// Returns the inode number of the node that the kernel calls `node`.
    fn number(&self, node: u64) -> InodeNumber {
        if node == ROOT_NODE { self.root() } else { InodeNumber(node) }
    }

    /// Returns the kernel's node number for an inode number.
    fn node_of(&self, number: InodeNumber) -> u64 {
        node_of(number, self.root())
    }

    fn root(&self) -> InodeNumber {
        self.volume.root_number()
    }

    /// Makes all changes of a node durable if the volume is mounted with `wsync` or `sync`.
    fn sync_if_required(&self, node: &Node) -> Result<(), Errno> {
        if self.settings.durability >= SyncPolicy::Names {
            node.sync().map_err(errno)
        } else {
            Ok(())
        }
    }

    fn answer(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        match opcode {
            Opcode::Lookup => self.lookup(request, reply),
            Opcode::Forget => {
                self.forget(request.node(), &mut 1);
                Ok(())
            }
            Opcode::BatchForget => self.forget_many(request),
            Opcode::GetAttr => self.get_attributes(request, reply),
            Opcode::StatX => self.get_statx(request, reply),
            Opcode::SetAttr => self.set_attributes(request, reply),
            Opcode::ReadLink => self.read_link(request, reply),
            Opcode::Symlink => self.symlink(request, reply),
            Opcode::MakeNode => self.make_node(request, reply),
            Opcode::MakeDirectory => self.make_directory(request, reply),
            Opcode::Create => self.create(request, reply),
            Opcode::TemporaryFile => self.create_unnamed(request, reply),
            Opcode::Unlink => self.unlink(request),
            Opcode::RemoveDirectory => self.remove_directory(request),
            Opcode::Rename => self.rename_without_flags(request),
            Opcode::Rename2 => self.rename(request),
            Opcode::Link => self.link(request, reply),
            Opcode::Access => self.access(request),
            Opcode::Open => self.open(request, reply),
            Opcode::OpenDirectory => self.open_directory(request, reply),
            Opcode::Release => self.release(request),
            Opcode::Read => self.read(request, reply),
            Opcode::Write => self.write(request, reply),
            Opcode::Fsync | Opcode::FsyncDirectory => self.fsync(request, reply),
            Opcode::Allocate => self.allocate(request, reply),
            Opcode::Seek => self.seek(request, reply),
            Opcode::CopyFileRange => self.copy_range(request, reply),
            Opcode::ReadDirectory => self.list(request, reply),
            // The server does not offer it then. A caller that may list a directory may lack search
            // permission.
            Opcode::ReadDirectoryPlus if self.is_checking() => Err(Errno::NOSYS),
            Opcode::ReadDirectoryPlus => self.list_with_attributes(request, reply),
            Opcode::GetXattr => self.get_xattr(request, reply),
            Opcode::SetXattr => self.set_xattr(request, reply),
            Opcode::ListXattr => self.list_xattrs(request, reply),
            Opcode::RemoveXattr => self.remove_xattr(request, reply),
            Opcode::StatFs => self.stat_fs(request, reply),
            Opcode::SyncFs => self.sync(),
            Opcode::Ioctl => self.ioctl(request, reply),
            // A closed file's buffered data is written when it is released. As in the kernel, fsync
            // reports the errors of that.
            Opcode::Flush => Err(Errno::NOSYS),
            Opcode::ReleaseDirectory | Opcode::Interrupt | Opcode::Init | Opcode::Destroy => Ok(()),
        }
    }

    fn forget(&self, node: u64, room: &mut usize) {
        self.write_waiting_time(self.number(node));
        self.unlinked.forget(node, room);
    }

    fn forget_many(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (batch, mut rest) = request.argument::<BatchForgetIn>()?;
        let mut room = FREED_AT_ONCE;
        for _ in 0..batch.count {
            let (one, after) = crate::transport::split_argument::<ForgetOne>(rest)?;
            self.forget(one.node, &mut room);
            rest = after;
        }
        Ok(())
    }

    /// Serves SYNCFS: makes all changes durable. The kernel sends SYNCFS only if the transport is
    /// not /dev/fuse.
    fn sync(&self) -> Result<(), Errno> {
        self.write_waiting_times();
        if self.settings.read_only { Ok(()) } else { self.volume.sync().map_err(errno) }
    }

    fn stat_fs(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let space = match self.node(request.node()) {
            Ok(node) => node.space(),
            Err(_) => self.volume.space(),
        };
        let space = space.map_err(errno)?;
        reply.add(&StatFsOut {
            blocks: space.total_blocks,
            free_blocks: space.available_blocks,
            available_blocks: space.available_blocks,
            files: space.files,
            free_files: space.free_files(),
            block_size: space.block_size,
            fragment_size: space.block_size,
            name_length: NAME_BYTES,
            ..StatFsOut::default()
        });
        Ok(())
    }
}

impl Handler for Server {
    fn wishes(&self) -> InitFlags {
        let always = InitFlags::ASYNC_READ
            | InitFlags::BIG_WRITES
            | InitFlags::MAX_PAGES
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::CACHE_SYMLINKS
            | InitFlags::IOCTL_DIR
            | InitFlags::EXPORT_SUPPORT
            | InitFlags::DONT_MASK
            | InitFlags::HANDLE_KILLPRIV_V2
            | InitFlags::SETXATTR_EXT;
        if self.is_checking() {
            // The kernel looks each name up again, so attributes in a listing would be of no use.
            let for_reading = InitFlags::ASYNC_DIO;
            return if self.settings.read_only { always | for_reading } else { always };
        }
        let always = always
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::POSIX_ACL;
        // OPEN for writing is refused for some files. For reading, the kernel knows enough to do
        // without OPEN. ASYNC_DIO is for read-only mounts: the kernel drops the pages that it read
        // during a direct write only if a program waited for that write.
        if self.settings.read_only {
            always | InitFlags::NO_OPEN_SUPPORT | InitFlags::ASYNC_DIO
        } else if self.settings.writeback {
            always | InitFlags::WRITEBACK_CACHE
        } else {
            always
        }
    }

    fn checks(&self) -> Checks {
        self.settings.checks
    }

    fn set_invalidator(&self, invalidator: Invalidator) {
        let root = self.root();
        // A read-only volume has no blocks that change.
        let _ = self
            .volume
            .on_blocks_changed(move |number| invalidator.invalidate(node_of(number, root)));
    }

    fn waits(&self, opcode: Opcode) -> bool {
        let syncs = matches!(opcode, Opcode::Fsync | Opcode::FsyncDirectory | Opcode::SyncFs);
        syncs || self.settings.durability != SyncPolicy::Asked
    }

    fn unwritten_nodes(&self) -> Vec<u64> {
        // Even without `writeback_cache`, the kernel holds what programs write to shared mappings.
        self.handles.written().into_iter().map(|number| self.node_of(number)).collect()
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let opcode = request.opcode().ok_or(Errno::NOSYS)?;
        let span = tracing::debug_span!("request", of = opcode.name(), node = request.node());
        let _entered = span.enter();
        self.statistics.measure(opcode, || self.answer(opcode, request, reply))
    }
}

/// Returns the kernel's node number for an inode number, on a volume whose root is inode `root`.
fn node_of(number: InodeNumber, root: InodeNumber) -> u64 {
    if number == root { ROOT_NODE } else { number.0 }
}

/// Converts an error of the library to the errno that the calling program gets.
fn errno(error: Error) -> Errno {
    if !matches!(error, Error::Posix(_)) {
        tracing::error!(%error, "a request failed");
    }
    Errno::from_raw_os_error(error.errno())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
