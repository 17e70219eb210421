//! Servers without a filesystem, over the transport of a real mount, as baselines for benchmarks.
//!
//! Owns: the answers to requests. Does **not** own: the files, which are in one of two stores: one
//! that keeps nothing ([`counters`]), and one that keeps what is written ([`kept`]).
//!
//! A server shows a root with directories `0`, `1`, …, and in each directory the files that clients
//! have made.

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
    ROOT_NODE, ReadIn, StatFsOut, StatX, StatXIn, StatXOut, WriteIn, WriteOut,
};
use crate::transport::{Handler, Reply, Request};

const VALID_SECONDS: u64 = 1 << 20;
const DIRECTORY: u32 = 0o40_755;
const FILE: u32 = 0o100_644;
/// Number of the bit at which the index of the directory starts in the node number of a file.
const DIRECTORY_SHIFT: u32 = 32;

/// The place of a file: the index of its directory, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    directory: usize,
    number: u64,
}

/// The files of a server.
trait FileStore: Send + Sync {
    /// Returns a store for the same directories and amounts of data, without files.
    fn emptied(&self) -> Arc<dyn FileStore>;

    fn directories(&self) -> usize;

    /// Returns the number of the file with this name, or `None` if there is none.
    fn find(&self, directory: usize, name: &OsStr) -> Option<u64>;

    /// Makes a file and returns its number.
    fn make(&self, directory: usize, name: &OsStr) -> Result<u64, Errno>;

    fn remove(&self, directory: usize, name: &OsStr) -> Result<(), Errno>;

    /// Passes the numbers and names of files to `each`, in the order of their numbers from `from`
    /// on, until it breaks.
    fn list(
        &self,
        directory: usize,
        from: u64,
        each: &mut dyn FnMut(u64, &OsStr) -> ControlFlow<()>,
    );

    fn file_bytes(&self, file: Place) -> u64;

    /// Fills `room` with the contents at `offset`. Returns the number of bytes before the end of
    /// the file.
    fn read(&self, file: Place, offset: u64, room: &mut [u8]) -> usize;

    fn write(&self, file: Place, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
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
    File(Place),
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
                Node::File(Place { directory: directory.saturating_sub(1), number: number - 1 })
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
        let (size, mode, nlink) = match Self::node(node) {
            Node::File(file) => (self.store.file_bytes(file), FILE, 1),
            _ => (0, DIRECTORY, 2),
        };
        Attributes { inode: node, size, mode, nlink, block_size: 4096, ..Attributes::default() }
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

    /// Returns the index of the directory of a request.
    fn directory(&self, request: &Request<'_>) -> Result<usize, Errno> {
        match Self::node(request.node()) {
            Node::Directory(index) if index < self.store.directories() => Ok(index),
            Node::Directory(_) => Err(Errno::NOENT),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn file(request: &Request<'_>) -> Result<Place, Errno> {
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
                .map(|number| Self::directory_node(number as usize)),
            _ => {
                let directory = self.directory(request)?;
                let number = self.store.find(directory, name);
                number.map(|number| Self::file_node(directory, number))
            }
        };
        let missing = EntryOut { entry_valid: VALID_SECONDS, ..EntryOut::default() };
        reply.add(&found.map_or(missing, |node| self.entry(node)));
        Ok(())
    }

    fn create(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (_, name) = request.argument_and_name::<CreateIn>()?;
        let directory = self.directory(request)?;
        let number = self.store.make(directory, name)?;
        reply.add(&self.entry(Self::file_node(directory, number)));
        reply.add(&OpenOut { handle: 0, flags: OPEN_KEEP_CACHE, padding: 0 });
        Ok(())
    }

    fn list(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let with_attributes = request.opcode() == Some(Opcode::ReadDirectoryPlus);
        let mut add = |number: u64, node: u64, name: &OsStr| {
            let name = name.as_encoded_bytes();
            let head = if with_attributes { size_of::<EntryOut>() } else { 0 };
            let length = head + (size_of::<DirEntry>() + name.len()).next_multiple_of(8);
            let end = reply.body_length() + length;
            if end > wanted.size as usize {
                return ControlFlow::Break(());
            }
            if with_attributes {
                reply.add(&self.entry(node));
            }
            let file_type = self.attributes(node).mode >> 12;
            let (next, name_length) = (number + 1, name.len() as u32);
            reply.add(&DirEntry { inode: node, next, name_length, file_type });
            reply.add_bytes(name);
            let padding = end - reply.body_length();
            reply.add_bytes([0; 8].get(..padding).unwrap_or_default());
            ControlFlow::Continue(())
        };
        match Self::node(request.node()) {
            Node::Root => {
                _ = (wanted.offset..self.store.directories() as u64).try_for_each(|number| {
                    let node = Self::directory_node(number as usize);
                    add(number, node, number.to_string().as_ref())
                });
            }
            _ => {
                let directory = self.directory(request)?;
                self.store.list(directory, wanted.offset, &mut |number, name| {
                    add(number, Self::file_node(directory, number), name)
                });
            }
        }
        Ok(())
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
