//! A read-only tree of files behind FUSE, from a source other than a volume.
//!
//! Owns: the meaning of each request in terms of a [`FileTree`]. Does **not** own: the files, or
//! permissions, which the kernel checks by the owners, modes and access control lists of the tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use crate::server::identity::{ACCESS_ATTRIBUTE, FIGURES_ATTRIBUTE, ShownOwner};
use crate::server::xattrs::{HIDDEN_PREFIX, answer_sized};
use crate::statistics::{Direction, Statistics};
use crate::transport::wire::{
    AttrOut, Attributes, DirEntry, EntryOut, InitFlags, Opcode, ROOT_NODE, ReadIn, StatFsOut,
    XattrSize,
};
use crate::transport::{Handler, MAX_WRITE_BYTES, Reply, Request};
use crate::{Checks, Settings};

/// How long the kernel may cache names and attributes, in seconds. The tree never changes.
const VALID_SECONDS: u64 = 365 * 24 * 3600;
/// Length of the longest file name in bytes.
const NAME_BYTES: u32 = 255;
/// Number of directory positions (cookies) that the entries `.` and `..` take.
const DOTS: u64 = 2;
/// Alignment of the directory entries in an answer to READDIR, in bytes.
const ALIGNMENT: usize = 8;
/// Number of the lowest type bit in a mode. The type in an entry is the mode shifted down by this
/// number.
const TYPE_SHIFT: u32 = 12;
/// The type in a directory entry that names a directory.
const DIRECTORY: u32 = 0o4;

/// A tree of files that never changes. Nodes have numbers; the root is [`ROOT_NODE`].
pub trait FileTree: Send + Sync + 'static {
    /// Returns the attributes of a node.
    ///
    /// # Errors
    ///
    /// ENOENT if there is no such node.
    fn attributes(&self, node: u64) -> Result<TreeAttributes, Errno>;

    /// Returns the node with this name in a directory.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none.
    fn lookup(&self, directory: u64, name: &OsStr) -> Result<u64, Errno>;

    /// Returns the directory that a directory is in. The root is its own parent.
    ///
    /// # Errors
    ///
    /// ENOENT if there is no such node.
    fn parent(&self, directory: u64) -> Result<u64, Errno>;

    /// Returns at most `most` entries of a directory after the first `skipped` ones.
    ///
    /// # Errors
    ///
    /// ENOENT if there is no such node.
    fn entries(&self, directory: u64, skipped: u64, most: usize) -> Result<Vec<TreeEntry>, Errno>;

    /// Returns up to `length` bytes of contents from `offset` on. Fewer bytes mean that the
    /// contents end there.
    ///
    /// # Errors
    ///
    /// EIO if one of these bytes belongs to the contents but is lost.
    fn read(&self, node: u64, offset: u64, length: usize) -> Result<Vec<u8>, Errno>;

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// EIO if the target is lost.
    fn target(&self, node: u64) -> Result<Vec<u8>, Errno>;

    /// Returns the extended attributes of a node.
    ///
    /// # Errors
    ///
    /// ENOENT if there is no such node.
    fn extended_attributes(&self, node: u64) -> Result<Vec<TreeXattr>, Errno>;

    /// Returns the size of the tree.
    fn space(&self) -> TreeSpace;
}

/// The attributes of a file in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeAttributes {
    /// The inode number that programs see.
    pub inode: u64,
    /// Length of the contents in bytes.
    pub size: u64,
    /// Space that the file takes, in units of 512 bytes.
    pub blocks: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Number of names (hard links) of the node.
    pub links: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Time of last access: seconds since 1970, and nanoseconds.
    pub accessed: (i64, u32),
    /// Time of last modification.
    pub modified: (i64, u32),
    /// Time of last change.
    pub changed: (i64, u32),
}

/// An entry of a directory in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name of the entry.
    pub name: Vec<u8>,
    /// The inode number that programs see.
    pub inode: u64,
    /// Type and permissions; 0 if the type is not known.
    pub mode: u32,
}

/// An extended attribute of a file in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeXattr {
    /// The name with its namespace, as Linux shows it.
    pub name: Vec<u8>,
    /// The value of the attribute.
    pub value: Vec<u8>,
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSpace {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of files.
    pub files: u64,
}

/// Answers the requests of a mount from a tree of files.
pub struct TreeServer<T> {
    tree: T,
    settings: Settings,
    identity: ShownOwner,
    statistics: Statistics,
}

impl<T: FileTree> TreeServer<T> {
    /// Creates a server for a tree. Only two of the settings have an effect: the shown owner and
    /// the shown group.
    #[must_use]
    pub fn new(tree: T, settings: Settings) -> Self {
        let (identity, statistics) = (ShownOwner::of_this_process(), Statistics::new());
        Self { tree, settings, identity, statistics }
    }

    /// Sets the path of the file that contains the tree, for programs that query the mount.
    #[must_use]
    pub fn in_image(self, image: &Path) -> Self {
        Self { identity: self.identity.with_image(image), ..self }
    }

    fn lookup(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let name = request.name()?;
        let found = match name.as_bytes() {
            b"." => Ok(request.node()),
            b".." => self.tree.parent(request.node()),
            _ => self.tree.lookup(request.node(), name),
        };
        let entry = match found {
            Ok(node) => EntryOut {
                node,
                attr_valid: VALID_SECONDS,
                attributes: self.attributes(node)?,
                ..EntryOut::default()
            },
            // The kernel caches missing names too.
            Err(Errno::NOENT) => EntryOut::default(),
            Err(error) => return Err(error),
        };
        reply.add(&EntryOut { entry_valid: VALID_SECONDS, ..entry });
        Ok(())
    }

    fn attributes(&self, node: u64) -> Result<Attributes, Errno> {
        let found = self.tree.attributes(node)?;
        let (major, minor) = found.device;
        Ok(Attributes {
            inode: found.inode,
            size: found.size,
            blocks: found.blocks,
            atime: found.accessed.0,
            mtime: found.modified.0,
            ctime: found.changed.0,
            atime_ns: found.accessed.1,
            mtime_ns: found.modified.1,
            ctime_ns: found.changed.1,
            mode: found.mode,
            nlink: found.links,
            uid: self.settings.uid.unwrap_or(found.uid),
            gid: self.settings.gid.unwrap_or(found.gid),
            rdev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
            block_size: self.tree.space().block_size,
            flags: 0,
        })
    }

    fn read(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let most = wanted.size.min(MAX_WRITE_BYTES) as usize;
        let bytes = self.tree.read(request.node(), wanted.offset, most)?;
        reply.add_bytes(&bytes);
        self.statistics.add_bytes(Direction::Read, bytes.len());
        Ok(())
    }

    fn list(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let most = wanted.size.min(MAX_WRITE_BYTES) as usize;
        let directory = request.node();
        let mut next = wanted.offset;
        for (cookie, name) in [(0, b".".as_slice()), (1, b"..")] {
            if next == cookie {
                let node = if cookie == 0 { directory } else { self.tree.parent(directory)? };
                let inode = self.tree.attributes(node)?.inode;
                next += 1;
                let entry = DirEntry { inode, next, name_length: 0, file_type: DIRECTORY };
                if !add(entry, name, most, reply) {
                    return Ok(());
                }
            }
        }
        // An entry takes at least this many bytes, so more entries would not fit.
        let count = most / (size_of::<DirEntry>() + 1) + 1;
        for found in self.tree.entries(directory, next - DOTS, count)? {
            next += 1;
            let TreeEntry { name, inode, mode } = found;
            let entry = DirEntry { inode, next, name_length: 0, file_type: mode >> TYPE_SHIFT };
            if !add(entry, &name, most, reply) {
                break;
            }
        }
        Ok(())
    }

    fn get_xattr(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<XattrSize>()?;
        if request.node() == ROOT_NODE
            && let Some(value) = name.to_str().and_then(|name| self.own_attribute(name))
        {
            return answer_sized(&value, wanted.size, reply);
        }
        let all = self.tree.extended_attributes(request.node())?;
        let found = all.into_iter().find(|found| found.name == name.as_bytes());
        answer_sized(&found.ok_or(Errno::NODATA)?.value, wanted.size, reply)
    }

    fn list_xattrs(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<XattrSize>()?;
        let mut names = Vec::new();
        for TreeXattr { name, .. } in self.tree.extended_attributes(request.node())? {
            if request.uid() == 0 || !name.starts_with(HIDDEN_PREFIX) {
                names.extend_from_slice(&name);
                names.push(0);
            }
        }
        answer_sized(&names, wanted.size, reply)
    }

    fn own_attribute(&self, name: &str) -> Option<Vec<u8>> {
        match name {
            FIGURES_ATTRIBUTE => Some(self.statistics.to_prometheus().into_bytes()),
            ACCESS_ATTRIBUTE => Some(b"ro".to_vec()),
            name => self.identity.attribute(name),
        }
    }

    fn stat_fs(&self, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let TreeSpace { block_size, blocks, files } = self.tree.space();
        reply.add(&StatFsOut {
            blocks,
            files,
            block_size,
            fragment_size: block_size,
            name_length: NAME_BYTES,
            ..StatFsOut::default()
        });
        Ok(())
    }

    fn answer(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        match opcode {
            Opcode::Lookup => self.lookup(request, reply),
            Opcode::GetAttr => {
                let attributes = self.attributes(request.node())?;
                let valid = VALID_SECONDS;
                reply.add(&AttrOut { valid, attributes, ..AttrOut::default() });
                Ok(())
            }
            Opcode::ReadLink => {
                reply.add_bytes(&self.tree.target(request.node())?);
                Ok(())
            }
            Opcode::Read => self.read(request, reply),
            Opcode::ReadDirectory => self.list(request, reply),
            Opcode::GetXattr => self.get_xattr(request, reply),
            Opcode::ListXattr => self.list_xattrs(request, reply),
            Opcode::StatFs => self.stat_fs(reply),
            Opcode::Forget
            | Opcode::BatchForget
            | Opcode::Release
            | Opcode::ReleaseDirectory
            | Opcode::Fsync
            | Opcode::FsyncDirectory
            | Opcode::SyncFs
            | Opcode::Interrupt
            | Opcode::Init
            | Opcode::Destroy => Ok(()),
            // The kernel knows enough to do without these.
            Opcode::Open
            | Opcode::OpenDirectory
            | Opcode::StatX
            | Opcode::Access
            | Opcode::Flush
            | Opcode::Seek
            | Opcode::ReadDirectoryPlus
            | Opcode::Ioctl => Err(Errno::NOSYS),
            _ => Err(Errno::ROFS),
        }
    }
}

/// Appends an entry to the answer. Returns `false`, and appends nothing, if the answer would exceed
/// `most` bytes.
fn add(entry: DirEntry, name: &[u8], most: usize, reply: &mut Reply<'_>) -> bool {
    let head = size_of::<DirEntry>();
    let length = (head + name.len()).next_multiple_of(ALIGNMENT);
    if reply.body_length() + length > most {
        return false;
    }
    reply.add(&DirEntry { name_length: name.len() as u32, ..entry });
    reply.add_bytes(name);
    let padding = length - head - name.len();
    reply.add_bytes([0; ALIGNMENT].get(..padding).unwrap_or_default());
    true
}

impl<T: FileTree> Handler for TreeServer<T> {
    fn wishes(&self) -> InitFlags {
        InitFlags::ASYNC_READ
            | InitFlags::BIG_WRITES
            | InitFlags::MAX_PAGES
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::CACHE_SYMLINKS
            | InitFlags::NO_OPEN_SUPPORT
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::POSIX_ACL
    }

    fn checks(&self) -> Checks {
        Checks::Kernel
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let opcode = request.opcode().ok_or(Errno::NOSYS)?;
        let span = tracing::debug_span!("request", of = opcode.name(), node = request.node());
        let _entered = span.enter();
        self.statistics.measure(opcode, || self.answer(opcode, request, reply))
    }
}
