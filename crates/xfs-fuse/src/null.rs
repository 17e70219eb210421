//! A server that answers at once, over the transport of a real mount, as a baseline for benchmarks.
//!
//! The server shows a root with directories `0`, `1`, …, and in each directory the files that
//! clients have made. Clients must name the files of a directory `0`, `1`, … in this order, and
//! remove them in the same order. All files have the same fixed length. Written data is dropped,
//! and reads return zeros. The server keeps two counters per directory.

use std::sync::Arc;

use rustix::io::Errno;
use xfs_sync::{AtomicU64, CachePadded, Object, Ordering};

use crate::transport::wire::{
    AttrOut, Attributes, CreateIn, DirEntry, EntryOut, InitFlags, OPEN_KEEP_CACHE, Opcode, OpenOut,
    ROOT_NODE, ReadIn, StatFsOut, StatX, StatXIn, StatXOut, WriteIn, WriteOut,
};
use crate::transport::{Handler, Reply, Request};

const VALID_SECONDS: u64 = 1 << 20;
const DIRECTORY: u32 = 0o40_755;
const FILE: u32 = 0o100_644;
/// Number of the bit at which the index of the directory starts in the node number of a file.
const DIRECTORY_SHIFT: u32 = 32;

/// The files of a directory: their numbers go from `removed` up to, but not including, `made`.
#[derive(Default)]
struct Files {
    made: AtomicU64<Object>,
    removed: AtomicU64<Object>,
}

/// A server for benchmarks that only keeps counters for its directories, and stores no data.
#[derive(Clone)]
pub struct Null {
    directories: Arc<[CachePadded<Files>]>,
    file_bytes: u64,
}

/// The file or directory to which a node number refers.
enum Node {
    Root,
    Directory(usize),
    File,
}

impl Null {
    /// Creates a server with `directories` directories, and files of `file_bytes` bytes.
    #[must_use]
    pub fn new(directories: usize, file_bytes: u64) -> Self {
        let directories = (0..directories).map(|_| CachePadded::default()).collect();
        Self { directories, file_bytes }
    }

    /// Returns a server with the same directories and file size, but without files.
    #[must_use]
    pub fn without_files(&self) -> Self {
        Self::new(self.directories.len(), self.file_bytes)
    }

    fn node(node: u64) -> Node {
        let directory = (node >> DIRECTORY_SHIFT) as usize;
        match (node & u64::from(u32::MAX), directory) {
            (ROOT_NODE, 0) => Node::Root,
            (0, _) => Node::Directory(directory - 1),
            _ => Node::File,
        }
    }

    fn directory_node(index: usize) -> u64 {
        (index as u64 + 1) << DIRECTORY_SHIFT
    }

    fn attributes(&self, node: u64) -> Attributes {
        let is_file = matches!(Self::node(node), Node::File);
        Attributes {
            inode: node,
            size: if is_file { self.file_bytes } else { 0 },
            mode: if is_file { FILE } else { DIRECTORY },
            nlink: if is_file { 1 } else { 2 },
            block_size: 4096,
            ..Attributes::default()
        }
    }

    fn entry(&self, node: u64) -> EntryOut {
        EntryOut {
            node,
            entry_valid: VALID_SECONDS,
            attr_valid: VALID_SECONDS,
            attributes: self.attributes(node),
            ..EntryOut::default()
        }
    }

    fn files(&self, node: u64) -> Result<(usize, &Files), Errno> {
        match Self::node(node) {
            Node::Directory(index) => {
                let files = self.directories.get(index).ok_or(Errno::NOENT)?;
                Ok((index, files))
            }
            _ => Err(Errno::NOTDIR),
        }
    }

    fn lookup(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let number = number(request.name()?)?;
        let found = match Self::node(request.node()) {
            Node::Root => (number < self.directories.len() as u64)
                .then(|| Self::directory_node(number as usize)),
            _ => {
                let (index, files) = self.files(request.node())?;
                let there =
                    files.removed.load(Ordering::Relaxed)..files.made.load(Ordering::Relaxed);
                there.contains(&number).then(|| Self::directory_node(index) + number + 1)
            }
        };
        let missing = EntryOut { entry_valid: VALID_SECONDS, ..EntryOut::default() };
        reply.add(&found.map_or(missing, |node| self.entry(node)));
        Ok(())
    }

    fn create(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (_, name) = request.argument_and_name::<CreateIn>()?;
        let (index, files) = self.files(request.node())?;
        let number = number(name)?;
        files.made.store(number + 1, Ordering::Relaxed);
        reply.add(&self.entry(Self::directory_node(index) + number + 1));
        reply.add(&OpenOut { handle: 0, flags: OPEN_KEEP_CACHE, padding: 0 });
        Ok(())
    }

    fn unlink(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (_, files) = self.files(request.node())?;
        files.removed.store(number(request.name()?)? + 1, Ordering::Relaxed);
        Ok(())
    }

    fn list(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let with_attributes = request.opcode() == Some(Opcode::ReadDirectoryPlus);
        let (first, end, directory) = match Self::node(request.node()) {
            Node::Root => (0, self.directories.len() as u64, None),
            _ => {
                let (index, files) = self.files(request.node())?;
                let made = files.made.load(Ordering::Relaxed);
                (files.removed.load(Ordering::Relaxed), made, Some(index))
            }
        };
        for number in first.max(wanted.offset)..end {
            let node = match directory {
                None => Self::directory_node(number as usize),
                Some(index) => Self::directory_node(index) + number + 1,
            };
            let name = number.to_string();
            let head = if with_attributes { size_of::<EntryOut>() } else { 0 };
            let length = head + (size_of::<DirEntry>() + name.len()).next_multiple_of(8);
            if reply.body_length() + length > wanted.size as usize {
                break;
            }
            let end = reply.body_length() + length;
            if with_attributes {
                reply.add(&self.entry(node));
            }
            let file_type = self.attributes(node).mode >> 12;
            let (next, name_length) = (number + 1, name.len() as u32);
            reply.add(&DirEntry { inode: node, next, name_length, file_type });
            reply.add_bytes(name.as_bytes());
            let padding = end - reply.body_length();
            reply.add_bytes([0; 8].get(..padding).unwrap_or_default());
        }
        Ok(())
    }
}

/// Parses a name that is a decimal number. Returns ENOENT for any other name.
fn number(name: &std::ffi::OsStr) -> Result<u64, Errno> {
    name.to_str().and_then(|name| name.parse().ok()).ok_or(Errno::NOENT)
}

impl Handler for Null {
    fn wishes(&self) -> InitFlags {
        InitFlags::all()
            - InitFlags::NO_OPEN_SUPPORT
            - InitFlags::POSIX_ACL
            - InitFlags::WRITEBACK_CACHE
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        match request.opcode().ok_or(Errno::NOSYS)? {
            Opcode::Lookup => self.lookup(request, reply),
            Opcode::GetAttr | Opcode::SetAttr => {
                let attributes = self.attributes(request.node());
                reply.add(&AttrOut { valid: VALID_SECONDS, attributes, ..AttrOut::default() });
                Ok(())
            }
            Opcode::StatX => {
                let (wanted, _) = request.argument::<StatXIn>()?;
                let of = self.attributes(request.node());
                let stat = StatX {
                    mask: wanted.mask,
                    mode: of.mode as u16,
                    inode: of.inode,
                    size: of.size,
                    nlink: of.nlink,
                    block_size: of.block_size,
                    ..StatX::default()
                };
                reply.add(&StatXOut { valid: VALID_SECONDS, stat, ..StatXOut::default() });
                Ok(())
            }
            Opcode::Create => self.create(request, reply),
            Opcode::Unlink => self.unlink(request),
            Opcode::Open => {
                reply.add(&OpenOut { handle: 0, flags: OPEN_KEEP_CACHE, padding: 0 });
                Ok(())
            }
            Opcode::ReadDirectory | Opcode::ReadDirectoryPlus => self.list(request, reply),
            Opcode::Read => {
                let (wanted, _) = request.argument::<ReadIn>()?;
                reply.fill_with(wanted.size as usize, |room| Ok(room.len()))
            }
            Opcode::Write => {
                let (wanted, _) = request.argument::<WriteIn>()?;
                reply.add(&WriteOut { size: wanted.size, padding: 0 });
                Ok(())
            }
            Opcode::StatFs => {
                reply.add(&StatFsOut::default());
                Ok(())
            }
            Opcode::Release | Opcode::Forget | Opcode::BatchForget | Opcode::Fsync => Ok(()),
            _ => Err(Errno::NOSYS),
        }
    }
}
