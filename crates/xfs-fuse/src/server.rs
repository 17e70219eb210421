//! A volume behind FUSE.
//!
//! Owns: what each request means in terms of [`ferroxfs`]. Does **not** own: permissions, which the
//! kernel checks by what we say of owners, modes and access control lists, or else ([`Checks`]) the library, for the caller
//! of each request; file locks, which the kernel keeps by itself, since nobody else writes to the volume.
//!
//! A node is an inode by its number, but for the root, which is node 1. There is no table of the nodes
//! that the kernel knows: an inode that has a name is found by its number, and one that has lost its
//! last is kept in [`Unnamed`] until the kernel forgets it, and in [`Handles`] while it is open. So nothing is kept for each node, and no
//! number is used anew while the kernel still means the file before by it.

mod access;
mod attributes;
mod caller;
mod checks;
mod contents;
mod directories;
mod handles;
mod identity;
mod ioctl;
mod names;
mod shards;
mod unnamed;
mod writeback;
mod xattrs;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferroxfs::{Error, InodeNumber, Node, Timestamp, Volume};
use rustix::io::Errno;
use xfs_sync::{SetOnce, Volume as VolumeScope};

use crate::MountError;
use crate::statistics::Statistics;
use crate::transport::wire::{BatchForgetIn, ForgetOne, InitFlags, Opcode, ROOT_NODE, StatFsOut};
use crate::transport::{Handler, Outdater, ReadOnlyLook, Reply, Request};
use access::LazyTimes;
use caller::By;
use checks::Checker;
pub use checks::Checks;
use handles::Handles;
use identity::Identity;
pub use identity::{
    ACCESS_ATTRIBUTE, FIGURES_ATTRIBUTE, IMAGE_ATTRIBUTE, NAMESPACE_ATTRIBUTE, PROCESS_ATTRIBUTE,
};
use unnamed::Unnamed;

/// Nobody but this server changes the volume, so what the kernel has been told stays true until the
/// kernel itself asks for a change.
const VALID: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest name.
const NAME_BYTES: u32 = 255;
/// So many files are freed by the worker that hears in one request that the kernel knows them no more. There
/// may be tens of thousands in it, and meanwhile the worker serves nobody.
const FREED_AT_ONCE: usize = 32;

/// How a volume is shown, and when what is written becomes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Nothing is written.
    pub read_only: bool,
    /// Whose everything appears to be. What is made then belongs to the owner of its directory.
    pub uid: Option<u32>,
    /// The same for the group.
    pub gid: Option<u32>,
    /// Which changes are durable before they are answered.
    pub durability: Durability,
    /// What becomes of the times of access.
    pub access_times: AccessTimes,
    /// Times of access wait in memory, and are written later.
    #[doc(alias = "lazytime")]
    pub lazy_times: bool,
    /// What is written waits in the kernel's page cache, acknowledged before it has space.
    pub writeback: bool,
    /// Who checks permissions.
    pub checks: Checks,
}

/// Which changes are durable before they are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Those that fsync, O_SYNC or the like ask for; the others within seconds.
    #[default]
    Asked,
    /// Changes of names and inodes as well.
    #[doc(alias = "wsync")]
    Names,
    /// All.
    #[doc(alias = "sync")]
    All,
}

/// What becomes of the times of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// They are set where they are older than the last change, or than a day.
    #[default]
    Relative,
    /// Those of directories stay, the others are set so.
    #[doc(alias = "nodiratime")]
    Files,
    /// They stay.
    Never,
}

/// A volume, as it answers the kernel.
pub struct Server {
    volume: Volume,
    settings: Settings,
    /// How it is mounted, if it is known where.
    standing: Option<ReadOnlyLook>,
    identity: Identity,
    /// Set when somebody has had the volume shut down, which wrote everything first.
    put_down: SetOnce<(), VolumeScope>,
    unnamed: Unnamed,
    handles: Handles,
    /// If times of access wait.
    lazy_times: Option<LazyTimes>,
    /// If permissions are checked here.
    checker: Option<Checker>,
    statistics: Statistics,
}

impl Server {
    /// Serves a volume, which is open for writing unless the settings say otherwise. A thread that is started for one
    /// that is only read is in no sandbox which workers enter later.
    ///
    /// # Errors
    ///
    /// [`MountError::Callers`], where permissions are to be checked.
    pub fn new(volume: Volume, settings: Settings) -> Result<Self, MountError> {
        let by = if settings.read_only { By::Another } else { By::Worker };
        let checker = match settings.checks {
            Checks::Kernel => None,
            Checks::Server => {
                Some(Checker::new(by).map_err(|source| MountError::Callers { source })?)
            }
        };
        let (unnamed, handles) = (Unnamed::default(), Handles::default());
        let waits = settings.lazy_times && !settings.read_only;
        let (lazy_times, statistics) = (waits.then(LazyTimes::default), Statistics::new());
        let (standing, identity) = (None, Identity::of_this_process());
        let put_down = SetOnce::new();
        Ok(Self {
            volume,
            settings,
            standing,
            identity,
            put_down,
            unnamed,
            handles,
            lazy_times,
            checker,
            statistics,
        })
    }

    /// Says which file the volume lies in, for who asks the mount.
    #[must_use]
    pub fn in_image(self, image: &Path) -> Self {
        Self { identity: self.identity.with_image(image), ..self }
    }

    /// Says where it is mounted, by the full path: what was made read-only there since is not labelled, and no
    /// time of access is written to it.
    #[must_use]
    pub fn mounted_at(self, folder: Option<PathBuf>) -> Self {
        Self { standing: folder.map(ReadOnlyLook::of), ..self }
    }

    /// Whether the mount was made read-only. The kernel keeps programs from writing then; this is for what the
    /// server would write by itself.
    fn is_held(&self) -> bool {
        self.standing.as_ref().is_some_and(ReadOnlyLook::is_read_only)
    }

    /// Lets go of all files and closes the volume.
    ///
    /// # Errors
    ///
    /// As [`Volume::close`]; none where the volume was shut down on demand, as what was to be kept is in its
    /// log.
    pub fn close(self) -> Result<(), Error> {
        self.settle_times();
        let Self { volume, unnamed, handles, checker, put_down, .. } = self;
        drop((unnamed, handles, checker));
        let closed = volume.close();
        if put_down.value().is_some() { Ok(()) } else { closed }
    }

    /// Figures of the mount, in the text format of Prometheus.
    #[must_use]
    pub fn figures(&self) -> String {
        let mut text = self.statistics.to_prometheus();
        // What is only read counts nothing.
        if let Ok(volume) = self.volume.statistics() {
            crate::statistics::add_volume(&mut text, &volume);
        }
        text
    }

    /// The inode of a node.
    fn node(&self, node: u64) -> Result<Node, Errno> {
        self.volume.node_trusted(self.number(node)).map_err(errno)
    }

    /// The inode number of a node.
    fn number(&self, node: u64) -> InodeNumber {
        if node == ROOT_NODE { self.root() } else { InodeNumber(node) }
    }

    /// The node of an inode number.
    fn node_of(&self, number: InodeNumber) -> u64 {
        node_of(number, self.root())
    }

    fn root(&self) -> InodeNumber {
        self.volume.superblock().root_inode
    }

    /// Makes a change durable, where that is wanted of all.
    fn settle(&self, node: &Node) -> Result<(), Errno> {
        if self.settings.durability >= Durability::Names {
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
            Opcode::StatX => self.get_more_attributes(request, reply),
            Opcode::SetAttr => self.set_attributes(request, reply),
            Opcode::ReadLink => self.read_link(request, reply),
            Opcode::Symlink => self.symlink(request, reply),
            Opcode::MakeNode => self.make_node(request, reply),
            Opcode::MakeDirectory => self.make_directory(request, reply),
            Opcode::Create => self.create(request, reply),
            Opcode::TemporaryFile => self.create_unnamed(request, reply),
            Opcode::Unlink => self.unlink(request),
            Opcode::RemoveDirectory => self.remove_directory(request),
            Opcode::Rename => self.rename_plainly(request),
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
            // It is not agreed on there. Who may list a directory need not be one who may look into it.
            Opcode::ReadDirectoryPlus if self.is_checking() => Err(Errno::NOSYS),
            Opcode::ReadDirectoryPlus => self.list_with_attributes(request, reply),
            Opcode::GetXattr => self.get_xattr(request, reply),
            Opcode::SetXattr => self.set_xattr(request, reply),
            Opcode::ListXattr => self.list_xattrs(request, reply),
            Opcode::RemoveXattr => self.remove_xattr(request, reply),
            Opcode::StatFs => self.stat_fs(reply),
            Opcode::SyncFs => self.sync(),
            Opcode::Ioctl => self.ioctl(request, reply),
            // What a closed file has in memory is written when it is released; errors of that are told by fsync,
            // as they are by the kernel.
            Opcode::Flush => Err(Errno::NOSYS),
            Opcode::ReleaseDirectory | Opcode::Interrupt | Opcode::Init | Opcode::Destroy => Ok(()),
        }
    }

    fn forget(&self, node: u64, room: &mut usize) {
        self.settle_time(self.number(node));
        self.unnamed.forget(node, room);
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

    /// The kernel asks for this only where the transport is not /dev/fuse.
    fn sync(&self) -> Result<(), Errno> {
        self.settle_times();
        if self.settings.read_only { Ok(()) } else { self.volume.sync().map_err(errno) }
    }

    fn stat_fs(&self, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let space = self.volume.space().map_err(errno)?;
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
            // Each name is asked for again, so that attributes from a listing would be of no use.
            let for_reading = InitFlags::ASYNC_DIO;
            return if self.settings.read_only { always | for_reading } else { always };
        }
        let always = always
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::POSIX_ACL;
        // Opening for writing is refused for some files; for reading only the kernel knows enough. What
        // it has read while a direct write was under way it drops afterwards, but not where nobody
        // waited for that write.
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

    fn outdate_by(&self, outdater: Outdater) {
        let root = self.root();
        // A volume that is only read has no blocks that change.
        let _ = self.volume.tell_of_blocks(move |number| outdater.outdate(node_of(number, root)));
    }

    fn waits(&self, opcode: Opcode) -> bool {
        let syncs = matches!(opcode, Opcode::Fsync | Opcode::FsyncDirectory | Opcode::SyncFs);
        syncs || self.settings.durability != Durability::Asked
    }

    fn unsettled(&self) -> Vec<u64> {
        // Without writeback the kernel holds what programs write into memory that they share with a file.
        self.handles.written().into_iter().map(|number| self.node_of(number)).collect()
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let opcode = request.opcode().ok_or(Errno::NOSYS)?;
        let span = tracing::debug_span!("request", of = opcode.name(), node = request.node());
        let _entered = span.enter();
        self.statistics.measure(opcode, || self.answer(opcode, request, reply))
    }
}

/// The node of an inode number, on a volume with this root.
fn node_of(number: InodeNumber, root: InodeNumber) -> u64 {
    if number == root { ROOT_NODE } else { number.0 }
}

/// What the caller gets for an error of the library.
fn errno(error: Error) -> Errno {
    if !matches!(error, Error::Posix(_)) {
        tracing::error!(%error, "a request failed");
    }
    Errno::from_raw_os_error(ferroxfs::errno(&error))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
