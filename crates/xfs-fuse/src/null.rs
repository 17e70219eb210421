//! Servers without a filesystem, over the transport of a real mount, as baselines for benchmarks.
//!
//! Owns: the answers to requests. Does **not** own: the files, which are in one of two stores: one
//! that keeps nothing ([`counters`]), and one that keeps what is written ([`kept`]).
//!
//! A server shows a root with directories `0`, `1`, …, and in each directory the files that clients
//! have made. It refuses to change the length of a file, except by writing.

mod counters;
mod kept;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::io::Errno;

use self::counters::Counters;
use self::kept::Kept;
use crate::transport::wire::{
    AttrOut, Attributes, CreateIn, DirEntry, EntryOut, InitFlags, OPEN_KEEP_CACHE, Opcode, OpenOut,
    ROOT_NODE, ReadIn, SetAttrIn, StatFsOut, StatX, StatXIn, StatXOut, WriteIn, WriteOut, set,
};
use crate::transport::{Handler, Reply, Request};

const VALID_SECONDS: u64 = 1 << 20;
const DIRECTORY: u32 = 0o40_755;
const FILE: u32 = 0o100_644;
const BLOCK_BYTES: u32 = 4096;
/// Number of the bit at which the index of the directory starts in the node number of a file.
const DIRECTORY_SHIFT: u32 = 32;

/// The place of a file: the index of its directory, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilePlace {
    directory: usize,
    number: u64,
}

/// A file: its number in its directory, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileFacts {
    number: u64,
    bytes: u64,
}

/// The receiver of the files of a directory, with their names. It must not call the store.
type FileVisitor<'a> = dyn FnMut(FileFacts, &OsStr) -> ControlFlow<()> + 'a;

/// The files of a server.
trait FileStore: Send + Sync {
    /// Returns a store for the same directories and amounts of data, without files.
    fn emptied(&self) -> Arc<dyn FileStore>;

    fn directories(&self) -> usize;

    /// Returns the file with this name, or `None` if there is none.
    fn find(&self, directory: usize, name: &OsStr) -> Option<FileFacts>;

    fn make(&self, directory: usize, name: &OsStr) -> Result<FileFacts, Errno>;

    fn remove(&self, directory: usize, name: &OsStr) -> Result<(), Errno>;

    /// Passes files to `each`, in the order of their numbers from `from` on, until it breaks.
    fn list(&self, directory: usize, from: u64, each: &mut FileVisitor<'_>);

    fn file_bytes(&self, file: FilePlace) -> u64;

    /// Fills `room` with the contents at `offset`. Returns the number of bytes before the end of
    /// the file.
    fn read(&self, file: FilePlace, offset: u64, room: &mut [u8]) -> usize;

    fn write(&self, file: FilePlace, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
}

/// A server for benchmarks, without a filesystem.
#[derive(Clone)]
pub struct Null {
    store: Arc<dyn FileStore>,
}

/// The file or directory to which a node number refers.
enum Node {
    Root,
    Directory(usize),
    File(FilePlace),
}

impl Null {
    /// Creates a server that keeps nothing but two counters for each of its `directories`, whose
    /// files have `file_bytes` bytes. Written data is dropped, and reads return zeros. Clients must
    /// name the files of a directory `0`, `1`, … in this order, and remove them in the same order.
    #[must_use]
    pub fn new(directories: usize, file_bytes: u64) -> Self {
        Self { store: Arc::new(Counters::new(directories, file_bytes)) }
    }

    /// Creates a server that keeps names, lengths and data in memory, as any server must. It has
    /// memory for `file_bytes` bytes of data in each of its `directories`, which has been written
    /// before.
    #[must_use]
    pub fn keeping(directories: usize, file_bytes: u64) -> Self {
        Self { store: Arc::new(Kept::new(directories, file_bytes)) }
    }

    /// Returns a server with the same directories and memory, but without files.
    #[must_use]
    pub fn without_files(&self) -> Self {
        Self { store: self.store.emptied() }
    }

    fn node(node: u64) -> Node {
        let directory = (node >> DIRECTORY_SHIFT) as usize;
        match (node & u64::from(u32::MAX), directory) {
            (ROOT_NODE, 0) => Node::Root,
            (0, _) => Node::Directory(directory - 1),
            (number, _) => {
                Node::File(FilePlace { directory: directory.saturating_sub(1), number: number - 1 })
            }
        }
    }

    fn directory_node(index: usize) -> u64 {
        (index as u64 + 1) << DIRECTORY_SHIFT
    }

    fn file_node(directory: usize, number: u64) -> u64 {
        Self::directory_node(directory) + number + 1
    }

    fn attributes(&self, node: u64) -> Attributes {
        match Self::node(node) {
            Node::File(file) => file_attributes(node, self.store.file_bytes(file)),
            _ => directory_attributes(node),
        }
    }

    /// Returns the index of the directory of a request.
    fn directory(&self, request: &Request<'_>) -> Result<usize, Errno> {
        match Self::node(request.node()) {
            Node::Directory(index) if index < self.store.directories() => Ok(index),
            Node::Directory(_) => Err(Errno::NOENT),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn file(request: &Request<'_>) -> Result<FilePlace, Errno> {
        match Self::node(request.node()) {
            Node::File(file) => Ok(file),
            _ => Err(Errno::ISDIR),
        }
    }

    fn lookup(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let name = request.name()?;
        let found = match Self::node(request.node()) {
            Node::Root => parse(name)
                .filter(|number| *number < self.store.directories() as u64)
                .map(|number| directory_attributes(Self::directory_node(number as usize))),
            _ => {
                let directory = self.directory(request)?;
                let file = self.store.find(directory, name);
                file.map(|file| {
                    file_attributes(Self::file_node(directory, file.number), file.bytes)
                })
            }
        };
        let missing = EntryOut { entry_valid: VALID_SECONDS, ..EntryOut::default() };
        reply.add(&found.map_or(missing, entry));
        Ok(())
    }

    fn create(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (_, name) = request.argument_and_name::<CreateIn>()?;
        let directory = self.directory(request)?;
        let file = self.store.make(directory, name)?;
        reply.add(&entry(file_attributes(Self::file_node(directory, file.number), file.bytes)));
        reply.add(&OpenOut { handle: 0, flags: OPEN_KEEP_CACHE, padding: 0 });
        Ok(())
    }

    fn list(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let with_attributes = request.opcode() == Some(Opcode::ReadDirectoryPlus);
        let mut add = |number: u64, attributes: Attributes, name: &OsStr| {
            let name = name.as_encoded_bytes();
            let head = if with_attributes { size_of::<EntryOut>() } else { 0 };
            let length = head + (size_of::<DirEntry>() + name.len()).next_multiple_of(8);
            let end = reply.body_length() + length;
            if end > wanted.size as usize {
                return ControlFlow::Break(());
            }
            if with_attributes {
                reply.add(&entry(attributes));
            }
            let (inode, file_type) = (attributes.inode, attributes.mode >> 12);
            let (next, name_length) = (number + 1, name.len() as u32);
            reply.add(&DirEntry { inode, next, name_length, file_type });
            reply.add_bytes(name);
            let padding = end - reply.body_length();
            reply.add_bytes([0; 8].get(..padding).unwrap_or_default());
            ControlFlow::Continue(())
        };
        match Self::node(request.node()) {
            Node::Root => {
                _ = (wanted.offset..self.store.directories() as u64).try_for_each(|number| {
                    let attributes = directory_attributes(Self::directory_node(number as usize));
                    add(number, attributes, number.to_string().as_ref())
                });
            }
            _ => {
                let directory = self.directory(request)?;
                self.store.list(directory, wanted.offset, &mut |file, name| {
                    let node = Self::file_node(directory, file.number);
                    add(file.number, file_attributes(node, file.bytes), name)
                });
            }
        }
        Ok(())
    }
}

fn file_attributes(node: u64, size: u64) -> Attributes {
    Attributes {
        inode: node,
        size,
        mode: FILE,
        nlink: 1,
        block_size: BLOCK_BYTES,
        ..Attributes::default()
    }
}

fn directory_attributes(node: u64) -> Attributes {
    Attributes {
        inode: node,
        mode: DIRECTORY,
        nlink: 2,
        block_size: BLOCK_BYTES,
        ..Attributes::default()
    }
}

fn entry(attributes: Attributes) -> EntryOut {
    EntryOut {
        node: attributes.inode,
        entry_valid: VALID_SECONDS,
        attr_valid: VALID_SECONDS,
        attributes,
        ..EntryOut::default()
    }
}

/// Parses a name that is a decimal number.
fn parse(name: &OsStr) -> Option<u64> {
    name.to_str()?.parse().ok()
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
                if request.opcode() == Some(Opcode::SetAttr)
                    && request.argument::<SetAttrIn>()?.0.valid & set::SIZE != 0
                {
                    return Err(Errno::NOTSUP);
                }
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
            Opcode::Unlink => self.store.remove(self.directory(request)?, request.name()?),
            Opcode::Open => {
                reply.add(&OpenOut { handle: 0, flags: OPEN_KEEP_CACHE, padding: 0 });
                Ok(())
            }
            Opcode::ReadDirectory | Opcode::ReadDirectoryPlus => self.list(request, reply),
            Opcode::Read => {
                let (wanted, _) = request.argument::<ReadIn>()?;
                let file = Self::file(request)?;
                reply.fill_with(wanted.size as usize, |room| {
                    Ok(self.store.read(file, wanted.offset, room))
                })
            }
            Opcode::Write => {
                let (wanted, rest) = request.argument::<WriteIn>()?;
                let bytes = rest.get(..wanted.size as usize).ok_or(Errno::IO)?;
                self.store.write(Self::file(request)?, wanted.offset, bytes)?;
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
