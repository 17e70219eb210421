//! Copying a tree of the host into a volume.
//!
//! Owns: the walk of the host, what is copied of a file, hard links. Does **not** own: the writes
//! (`ferroxfs`). The command `import` has more choices: archives, filters, reproducible images.
//!
//! Contents come first, then owner, attributes, mode and times: a write changes a time and removes
//! attributes such as `security.capability`. A directory gets its own when all below it is copied.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroxfs::attr::{AclKind, SetMode};
use ferroxfs::{
    CreateOptions, DeviceNumber, Error, NewKind, Node, PosixError, SetAttributes, Timestamp,
};
use pyo3::prelude::{PyResult, Python, pymethods};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::Volume;
use crate::errors::Failure;

/// The size of one read and write, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The most bytes that Linux returns for one attribute, or for the names of all.
const MOST_ATTRIBUTE_BYTES: usize = 64 << 10;
/// The time between two looks for a signal, such as that of Ctrl-C.
const SIGNAL_PAUSE: Duration = Duration::from_millis(100);
const PERMISSION_BITS: u32 = 0o7777;

/// The identity of a file of the host: the numbers of its device and its inode.
pub(super) type Identity = (u64, u64);

/// A failure, and the file of the host that it is about.
type Failed = (Failure, PathBuf);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Returns the identity of the file at a path of the host, if there is one.
pub(super) fn identity_of(path: &[u8]) -> Option<Identity> {
    fs::metadata(OsStr::from_bytes(path)).ok().as_ref().map(identity)
}

#[pymethods]
impl Volume {
    /// Copies the directory `source` of the host, with everything in it, to `target`.
    fn populate(&self, py: Python<'_>, source: &[u8], target: &[u8]) -> PyResult<()> {
        let source = PathBuf::from(OsStr::from_bytes(source));
        let copied = py.detach(|| {
            let volume = self.volume.read();
            let volume = volume.as_ref().ok_or((Failure::Closed("volume"), source.clone()))?;
            copy_tree(volume, &source, target, &self.images)
        });
        copied.map_err(|(failure, path)| {
            failure.into_exception(py, Some(path.as_os_str().as_bytes()))
        })
    }
}

/// A directory that is being copied.
struct Open {
    node: Node,
    path: PathBuf,
    metadata: Metadata,
    names: std::vec::IntoIter<OsString>,
}

impl Open {
    /// Lists a directory of the host. `node` is its copy.
    fn new(node: Node, path: PathBuf, metadata: Metadata) -> Result<Self, Failed> {
        let listed = fs::read_dir(&path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()
        });
        let mut names: Vec<OsString> = listed.map_err(|error| (error.into(), path.clone()))?;
        // The same tree gives the same inode numbers.
        names.sort_unstable();
        Ok(Self { node, path, metadata, names: names.into_iter() })
    }
}

fn copy_tree(
    volume: &ferroxfs::Volume,
    source: &Path,
    target: &[u8],
    images: &[Identity],
) -> Result<(), Failed> {
    let about = |failure: Failure| (failure, source.to_owned());
    let metadata = fs::metadata(source).map_err(|error| about(error.into()))?;
    if !metadata.is_dir() {
        return Err(about(PosixError::NotDirectory.into()));
    }
    let node = match volume.lookup(OsStr::from_bytes(target)) {
        Ok(node) if node.metadata().is_dir() => node,
        Ok(_) => return Err(about(PosixError::NotDirectory.into())),
        Err(Error::Posix(PosixError::NotFound)) => volume
            .create_node(OsStr::from_bytes(target), &NewKind::Directory, &creation(&metadata))
            .map_err(|error| about(error.into()))?,
        Err(error) => return Err(about(error.into())),
    };
    let mut copier = Copier { images, links: HashMap::new(), chunk: Vec::new(), looked: now() };
    let mut open = vec![Open::new(node, source.to_owned(), metadata)?];
    while let Some(directory) = open.last_mut() {
        match directory.names.next() {
            Some(name) => {
                let path = directory.path.join(&name);
                let entered = copier.copy(&directory.node, &name, &path);
                let entered = entered.map_err(|failure| (failure, path.clone()))?;
                if let Some((node, metadata)) = entered {
                    open.push(Open::new(node, path, metadata)?);
                }
            }
            None => {
                set_properties(&directory.node, &directory.path, &directory.metadata)
                    .map_err(|failure| (failure, directory.path.clone()))?;
                open.pop();
            }
        }
    }
    Ok(())
}

fn now() -> Instant {
    Instant::now()
}

/// Returns the mode and owner with which a file is created. Its creator must be able to fill it.
fn creation(metadata: &Metadata) -> CreateOptions {
    let mode = match metadata {
        it if it.is_symlink() => 0o777,
        it if it.is_dir() => 0o700,
        _ => 0o600,
    };
    CreateOptions::new(mode).uid(metadata.uid()).gid(metadata.gid())
}

struct Copier<'a> {
    /// The files that have the volume.
    images: &'a [Identity],
    /// The copies of files with several names.
    links: HashMap<Identity, Node>,
    /// The memory of one read.
    chunk: Vec<u8>,
    /// The time of the last look for a signal.
    looked: Instant,
}

impl Copier<'_> {
    /// Copies a file to `name` in a directory of the volume. Returns the node of a directory, whose
    /// entries are not copied yet.
    fn copy(
        &mut self,
        directory: &Node,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<(Node, Metadata)>, Failure> {
        self.look_for_signals()?;
        let metadata = fs::symlink_metadata(path)?;
        if self.images.contains(&identity(&metadata)) {
            let rule = format!("{} is the image that is written to", path.display());
            return Err(Failure::Value(rule));
        }
        if metadata.is_dir() {
            let made = directory.create(name, &NewKind::Directory, &creation(&metadata));
            return Ok(Some((merged(directory, name, made)?, metadata)));
        }
        if let Some(node) = self.links.get(&identity(&metadata)) {
            directory.link(node, name)?;
            return Ok(None);
        }
        let target = metadata.is_symlink().then(|| fs::read_link(path)).transpose()?;
        let kind = kind_of(&metadata, target.as_deref());
        let node = directory.create(name, &kind, &creation(&metadata))?;
        if metadata.is_file() {
            self.copy_contents(&node, path, &metadata)?;
        }
        set_properties(&node, path, &metadata)?;
        if metadata.nlink() > 1 {
            self.links.insert(identity(&metadata), node);
        }
        Ok(None)
    }

    /// Copies the contents of a regular file. Holes become holes.
    fn copy_contents(
        &mut self,
        node: &Node,
        path: &Path,
        metadata: &Metadata,
    ) -> Result<(), Failure> {
        // The name may be that of another file now, even of a FIFO, which must not block.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let source = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if identity(&source.metadata()?) != identity(metadata) {
            return Err(io::Error::other("was replaced while it was copied").into());
        }
        let copy = node.open_write_only()?;
        self.chunk.resize(CHUNK_BYTES, 0);
        let mut offset = 0;
        while let Some(end) = next_data(&source, metadata.len(), &mut offset)? {
            while offset < end {
                self.look_for_signals()?;
                let wanted = (end - offset).min(CHUNK_BYTES as u64) as usize;
                let buffer = self.chunk.get_mut(..wanted).unwrap_or_default();
                let count = source.read_at(buffer, offset)?;
                let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                write_all(&copy, bytes, offset)?;
                offset += count as u64;
            }
            if offset < end {
                // The end of the file. It may have become shorter.
                break;
            }
        }
        let length = source.metadata()?.len();
        if copy.metadata().size < length {
            copy.set_len(length)?;
        }
        Ok(copy.close()?)
    }

    /// Lets Python handle signals from time to time: Ctrl-C ends a copy.
    fn look_for_signals(&mut self) -> Result<(), Failure> {
        if self.looked.elapsed() < SIGNAL_PAUSE {
            return Ok(());
        }
        self.looked = now();
        Ok(Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))?)
    }
}

/// Returns a directory that was made, or the one that has this name already.
fn merged(directory: &Node, name: &OsStr, made: ferroxfs::Result<Node>) -> Result<Node, Failure> {
    match made {
        Err(Error::Posix(PosixError::Exists)) => {
            let found = directory.lookup(name)?;
            let is_directory = found.metadata().is_dir();
            if is_directory { Ok(found) } else { Err(PosixError::Exists.into()) }
        }
        made => Ok(made?),
    }
}

fn kind_of<'a>(metadata: &Metadata, target: Option<&'a Path>) -> NewKind<'a> {
    let kind = metadata.file_type();
    let device = DeviceNumber {
        major: rustix::fs::major(metadata.rdev()),
        minor: rustix::fs::minor(metadata.rdev()),
    };
    match target {
        Some(target) => NewKind::Symlink(target.as_os_str().as_bytes()),
        None if kind.is_fifo() => NewKind::Fifo,
        None if kind.is_socket() => NewKind::Socket,
        None if kind.is_block_device() => NewKind::BlockDevice(device),
        None if kind.is_char_device() => NewKind::CharacterDevice(device),
        None => NewKind::Regular,
    }
}

/// Moves `offset` to the next data of a file. Returns the end of this data, or `None` if there is
/// none.
fn next_data(file: &fs::File, length: u64, offset: &mut u64) -> Result<Option<u64>, Failure> {
    let failed = |error: Errno| Failure::Host(error.into());
    // The size of a file in /proc is 0. Its contents are found by reading.
    if length == 0 {
        return Ok((*offset == 0).then_some(u64::MAX));
    }
    match seek(file, SeekFrom::Data(*offset)) {
        Ok(start) => *offset = start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows no holes.
        Err(Errno::INVAL) => return Ok(Some(u64::MAX)),
        Err(error) => return Err(failed(error)),
    }
    match seek(file, SeekFrom::Hole(*offset)) {
        Ok(end) if end > *offset => Ok(Some(end)),
        Ok(_) | Err(Errno::NXIO) => Ok(Some(u64::MAX)),
        Err(error) => Err(failed(error)),
    }
}

fn write_all(file: &ferroxfs::File, mut bytes: &[u8], mut offset: u64) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let count = file.write_at(bytes, offset)?;
        if count == 0 {
            return Err(PosixError::NoSpace.into());
        }
        bytes = bytes.get(count..).unwrap_or_default();
        offset += count as u64;
    }
    Ok(())
}

/// Sets owner, attributes, mode and times of a copy.
fn set_properties(node: &Node, path: &Path, metadata: &Metadata) -> Result<(), Failure> {
    let has = node.metadata();
    if (has.uid, has.gid) != (metadata.uid(), metadata.gid()) {
        let owned = SetAttributes::new().uid(metadata.uid()).gid(metadata.gid());
        node.set_attributes(&owned)?;
    }
    for kind in [AclKind::Access, AclKind::Default] {
        // Remove what it inherited from its directory.
        if node.acl(kind)?.is_some() {
            node.set_acl(kind, None)?;
        }
    }
    // The mode comes before the attributes: an access control list among them changes it.
    if !metadata.is_symlink() {
        let mode = (metadata.mode() & PERMISSION_BITS) as u16;
        node.set_attributes(&SetAttributes::new().mode(mode))?;
    }
    for name in attribute_names(path)? {
        let value = attribute(path, &name)?;
        node.set_attribute(OsStr::from_bytes(&name), &value, SetMode::Either)?;
    }
    let accessed = timestamp(metadata.atime(), metadata.atime_nsec())?;
    let modified = timestamp(metadata.mtime(), metadata.mtime_nsec())?;
    Ok(node.set_attributes(&SetAttributes::new().accessed(accessed).modified(modified))?)
}

fn timestamp(seconds: i64, nanoseconds: i64) -> Result<Timestamp, Failure> {
    let rest = u32::try_from(nanoseconds).ok();
    let time = rest.and_then(|rest| Timestamp::new(seconds, rest));
    time.ok_or_else(|| Failure::Value(format!("{seconds} s is no time")))
}

/// Returns the names of the attributes that a copy gets. Two kinds stay behind: access control
/// lists under the names that they have on disk in XFS, which Linux shows in addition, and
/// properties of a whole volume.
fn attribute_names(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let mut list = vec![0; MOST_ATTRIBUTE_BYTES];
    let length = match rustix::fs::llistxattr(path, list.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(Failure::Host(error.into())),
    };
    let names = list.get(..length).unwrap_or_default().split(|byte| *byte == 0);
    let stays = |name: &[u8]| {
        name.is_empty()
            || name.starts_with(b"trusted.SGI_ACL_")
            || name.starts_with(b"trusted.xfs:")
    };
    let mut names: Vec<_> = names.filter(|name| !stays(name)).map(<[u8]>::to_vec).collect();
    names.sort_unstable();
    Ok(names)
}

fn attribute(path: &Path, name: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut value = vec![0; MOST_ATTRIBUTE_BYTES];
    let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice());
    value.truncate(length.map_err(|error| Failure::Host(error.into()))?);
    Ok(value)
}
